//! HTML and SVG that cannot be malformed: every value is escaped, and every tag that is opened is closed.

use std::borrow::Cow;

/// Attributes of a tag. The values may be anything.
pub type Attributes<'a> = &'a [(&'a str, &'a str)];

/// A piece of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Text, as a reader sees it.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escaped(text));
        self
    }

    /// A tag with nothing in it that is closed at once, as SVG has them.
    pub fn empty(&mut self, name: &str, attributes: Attributes<'_>) -> &mut Self {
        self.begin(name, attributes);
        self.0.push_str("/>");
        self
    }

    /// A tag with text in it.
    pub fn leaf(&mut self, name: &str, attributes: Attributes<'_>, text: &str) -> &mut Self {
        self.wrap(name, attributes, |inner| {
            inner.text(text);
        })
    }

    /// A tag with whatever `fill` puts into it.
    pub fn wrap(
        &mut self,
        name: &str,
        attributes: Attributes<'_>,
        fill: impl FnOnce(&mut Markup),
    ) -> &mut Self {
        self.begin(name, attributes);
        self.0.push('>');
        fill(self);
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        self
    }

    /// Another piece after this one.
    pub fn add(&mut self, other: &Markup) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// A row of a table, its cells as they come.
    pub fn row(&mut self, cell: &str, cells: &[&str]) -> &mut Self {
        self.wrap("tr", &[], |row| {
            for text in cells {
                row.leaf(cell, &[], text);
            }
        })
    }

    /// A whole document around this, which is its body. `style` is trusted: it is the program's own.
    pub fn document(self, title: &str, style: &str) -> String {
        let head = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <meta name=\"color-scheme\" content=\"light dark\"/>\
             <title>{}</title><style>\n{style}</style></head>",
            escaped(title)
        );
        format!("{head}\n<body>{}</body></html>\n", self.0)
    }

    fn begin(&mut self, name: &str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(name);
        for (key, value) in attributes {
            self.0.push(' ');
            self.0.push_str(key);
            self.0.push_str("=\"");
            self.0.push_str(&escaped(value));
            self.0.push('"');
        }
    }
}

/// What stands for a text between tags and between quotes. Characters that no document may have are replaced.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || forbidden(c);
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if forbidden(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_from_outside_stay_text() {
        let mut page = Markup::default();
        page.leaf("td", &[("title", "\" onload='x'")], "<script>&\u{0}\u{1b}</td>");
        assert_eq!(
            page.0,
            "<td title=\"&quot; onload=&#39;x&#39;\">&lt;script&gt;&amp;\u{fffd}\u{fffd}&lt;/td&gt;</td>"
        );
        let whole = page.document("a</title>", "");
        assert!(whole.contains("<title>a&lt;/title&gt;</title>"), "{whole}");
    }

    #[test]
    fn tags_nest() {
        let mut page = Markup::default();
        page.wrap("g", &[], |group| {
            group.empty("path", &[("d", "M0 0")]).row("td", &["a", "b"]);
        });
        assert_eq!(page.0, "<g><path d=\"M0 0\"/><tr><td>a</td><td>b</td></tr></g>");
    }
}
