//! Cron expressions of other dialects. Pure. What is not understood is left as it is: the check of the job refuses it
//! with its place.

/// A Quartz expression in the dialect of this product. Quartz numbers weekdays from Sunday as 1, and its bare `L` there
/// is a Saturday.
pub(super) fn from_quartz(expression: &str) -> String {
    let mut fields: Vec<String> = expression.split_whitespace().map(str::to_owned).collect();
    if let Some(weekdays) = fields.get_mut(5) {
        *weekdays = weekdays.split(',').map(shifted).collect::<Vec<_>>().join(",");
    }
    fields.join(" ")
}

/// Whether a Quartz expression restricts both the day of the month and the weekday: then both must match.
pub(super) fn restricts_both_days(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let free = |place: usize| fields.get(place).is_none_or(|field| matches!(*field, "?" | "*"));
    !free(3) && !free(5)
}

fn shifted(part: &str) -> String {
    if part.eq_ignore_ascii_case("L") {
        return "6".to_owned();
    }
    if let Some((day, nth)) = part.split_once('#') {
        return format!("{}#{nth}", day_of(day));
    }
    let (days, step) = match part.split_once('/') {
        Some((days, step)) => (days, Some(step)),
        None => (part, None),
    };
    let days = match days.split_once('-') {
        Some((from, to)) => format!("{}-{}", day_of(from), day_of(to)),
        // Up to Saturday: here a step from a number would reach 7, which is Sunday again.
        None if step.is_some() && days.parse::<u8>().is_ok() => format!("{}-6", day_of(days)),
        None => day_of(days),
    };
    step.map_or_else(|| days.clone(), |step| format!("{days}/{step}"))
}

/// One weekday, with or without `L` behind it. Names are the same in both dialects.
fn day_of(day: &str) -> String {
    let (number, last) = match day.strip_suffix(['L', 'l']) {
        Some(number) if !number.is_empty() => (number, "L"),
        _ => (day, ""),
    };
    match number.parse::<u8>() {
        Ok(number @ 1..=7) => format!("{}{last}", number - 1),
        _ => day.to_owned(),
    }
}

/// An expression of robfig's parser, which Dkron uses, in the dialect of this product, and the zone that it may begin
/// with. There a step makes a field count as given (`*/2` and a weekday: either is enough); here, as in Vixie's cron,
/// a field that begins with `*` is not.
pub(super) fn from_robfig(expression: &str) -> (String, Option<&str>) {
    let trimmed = expression.trim();
    let (zone, rest) = match trimmed.strip_prefix("CRON_TZ=").or_else(|| trimmed.strip_prefix("TZ=")) {
        Some(rest) => {
            rest.split_once(char::is_whitespace).map_or((None, trimmed), |(zone, rest)| (Some(zone), rest))
        }
        None => (None, trimmed),
    };
    if rest.starts_with("@minutely") {
        return ("0 * * * * *".to_owned(), zone);
    }
    let mut fields: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    if fields.len() == 6
        && !matches!(fields[3].as_str(), "*" | "?")
        && !matches!(fields[5].as_str(), "*" | "?")
    {
        for (place, all) in [(3, "1-31"), (5, "0-6")] {
            if let Some(step) = fields[place].strip_prefix("*/") {
                fields[place] = format!("{all}/{step}");
            }
        }
    }
    (fields.join(" "), zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b40_quartz_counts_weekdays_from_sunday_as_one() {
        for (quartz, here) in [
            ("0 0 2 ? * 2-6", "0 0 2 ? * 1-5"),
            ("0 0 2 ? * 1", "0 0 2 ? * 0"),
            ("0 0 2 ? * 7", "0 0 2 ? * 6"),
            ("0 0 2 ? * 1,4,7", "0 0 2 ? * 0,3,6"),
            ("0 0 2 ? * MON-FRI", "0 0 2 ? * MON-FRI"),
            ("0 0 2 ? * 6L", "0 0 2 ? * 5L"),
            ("0 0 2 ? * FRIL", "0 0 2 ? * FRIL"),
            ("0 0 2 ? * L", "0 0 2 ? * 6"),
            ("0 0 2 ? * 6#3", "0 0 2 ? * 5#3"),
            ("0 0 2 ? * 2/2", "0 0 2 ? * 1-6/2"),
            ("0 0 2 ? * */2", "0 0 2 ? * */2"),
            ("0 0 2 ? * 2-6/2 2027", "0 0 2 ? * 1-5/2 2027"),
            ("0 0  2 L * ?", "0 0 2 L * ?"),
            ("0 0 2 ? * 8", "0 0 2 ? * 8"),
            ("0/30 * * * * ?", "0/30 * * * * ?"),
        ] {
            assert_eq!(from_quartz(quartz), here);
        }
        assert!(restricts_both_days("0 0 2 1 * 2") && !restricts_both_days("0 0 2 ? * 2"));
    }

    #[test]
    fn robfigs_zones_and_steps() {
        assert_eq!(from_robfig("0 30 * * * *"), ("0 30 * * * *".into(), None));
        assert_eq!(from_robfig("TZ=Asia/Tokyo 0 0 4 * * *"), ("0 0 4 * * *".into(), Some("Asia/Tokyo")));
        assert_eq!(from_robfig("CRON_TZ=UTC @daily"), ("@daily".into(), Some("UTC")));
        assert_eq!(from_robfig("@every 10m"), ("@every 10m".into(), None));
        assert_eq!(from_robfig("@minutely").0, "0 * * * * *");
        assert_eq!(from_robfig("0 0 0 */2 * MON").0, "0 0 0 1-31/2 * MON");
        assert_eq!(from_robfig("0 0 0 */2 * *").0, "0 0 0 */2 * *");
        assert_eq!(from_robfig("TZ=").0, "TZ=");
    }
}
