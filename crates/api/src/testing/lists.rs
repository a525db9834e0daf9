//! Lists of tasks, page by page.

use serde_json::json;

use super::{Draft, Universe};

#[tokio::test]
async fn lists_are_paged_newest_first_and_by_status() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    let mut made = Vec::new();
    for number in 0..5 {
        universe.clock.advance_ms(1);
        let handler = if number % 2 == 0 { "echo" } else { "sleep" };
        made.push(node.call(&Draft::submit(json!({"handler": handler}))).await.task_id());
    }
    made.reverse();
    node.call(&Draft::submit(json!({"handler": "echo"})).by_b()).await.task_id();
    let list = |query: &str| Draft::get("/openapi/v1/tasks").query(query);
    let ids = |reply: &super::Reply| -> Vec<String> {
        let tasks = reply.body["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
    };
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = node.call(&list(&format!("page_size=2{token}"))).await;
        assert_eq!(page.status, 200, "{}", page.text);
        seen.extend(ids(&page));
        match page.body["nextPageToken"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    let by_handler = node.call(&list("handler=sleep&page_size=1")).await;
    assert_eq!(ids(&by_handler), [made[1].clone()]);
    let next = by_handler.body["nextPageToken"].as_str().unwrap();
    let rest = node.call(&list(&format!("handler=sleep&page_size=1&page_token={next}"))).await;
    assert_eq!(ids(&rest), [made[3].clone()]);
    node.call(&list(&format!("page_size=1&page_token={next}"))).await.is(400, "invalid_query");
    node.call(&list(&format!("handler=sleep&page_token={next}")).by_b()).await.is(400, "invalid_query");
    universe.grant(&made[0], 1);
    assert_eq!(ids(&node.call(&list("status=RUNNING")).await), [made[0].clone()]);
    let pending = node.call(&list("status=PENDING&page_size=100")).await;
    assert_eq!(ids(&pending), made[1..]);
    assert!(pending.body["tasks"][0]["params"].is_null() && pending.body["tasks"][0]["attempts"].is_null());
    assert!(pending.body["nextPageToken"].is_null());
}

#[tokio::test]
async fn b97_a_filter_without_a_hit_costs_a_bounded_look_for_each_page() {
    let universe = Universe::of(1).await;
    let node = universe.leader();
    for _ in 0..3 {
        let tasks = vec![json!({"handler": "echo"}); 900];
        let batch = Draft::post("/openapi/v1/tasks/batch", json!({ "tasks": tasks }));
        assert_eq!(node.call(&batch).await.status, 200);
    }
    let list = |query: &str| Draft::get("/openapi/v1/tasks").query(query);
    // By status there is an index.
    let none = node.call(&list("status=FAILED&page_size=100")).await;
    assert_eq!((&none.body["tasks"], &none.body["nextPageToken"]), (&json!([]), &serde_json::Value::Null));
    // By handler a page looks at some thousand tasks, and says where it stopped.
    let (mut pages, mut token) = (0, String::new());
    loop {
        let page = node.call(&list(&format!("handler=nobody&page_size=100{token}"))).await;
        assert_eq!((page.status, &page.body["tasks"]), (200, &json!([])), "{}", page.text);
        pages += 1;
        assert!(pages < 10, "it comes to no end");
        match page.body["nextPageToken"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(pages, 3, "of 2,700 tasks");
    node.call(&list("page_size=1000000")).await.is(400, "invalid_query");
}
