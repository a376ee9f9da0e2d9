//! Tests of notifications of a built-in server, such as that a promised document is available: only
//! subscribed clients of both eras get them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;

use super::tests::{ask, modern, next_notification, next_text, raw, session};
use super::*;
use crate::manager::config::Config;
use builtins::{Builtin, BuiltinInfo, InProcessConnector, Report};
use runtime::shutdown::Shutdown;
use upstream::connection::Events;
use upstream::{Error, Event, fake};

const URI: &str = "x://context";

struct Bell;

impl Builtin for Bell {
    const INFO: BuiltinInfo = BuiltinInfo { name: "bell", title: "Bell", instructions: "" };

    fn tools(&self) -> Vec<Raw> {
        Vec::new()
    }

    async fn call(&self, _: &str, _: Raw, _: &Report) -> Result<Reply, Error> {
        Ok(Ok(Raw::empty_object()))
    }

    fn resources(&self) -> Option<Vec<Raw>> {
        let resource = |uri| raw(&json!({"uri": uri, "name": "context"}));
        Some(vec![resource(URI), resource("x://none")])
    }

    fn subscribable_resources(&self) -> &[&str] {
        &[URI]
    }
}

/// A gateway with a built-in server, and a function that sends its notification.
async fn gateway() -> (Gateway, impl Fn()) {
    let bell: Arc<Mutex<Option<Events>>> = Arc::default();
    let own_bell = Arc::clone(&bell);
    let connector = InProcessConnector::new(move |events| {
        *own_bell.lock().expect("no panic") = Some(events);
        async { Ok(Bell) }.boxed()
    });
    let config = Config::of(vec![fake::config("s")]);
    let shutdown = Shutdown::new();
    let manager =
        crate::manager::Manager::with_connectors(config, vec![Arc::new(connector)], shutdown.clone());
    manager.settled(&Scope::ALL, Duration::from_secs(1)).await;
    let ring = move || {
        let notice =
            Notification { method: method::RESOURCE_UPDATED.into(), params: Some(raw(&json!({"uri": URI}))) };
        bell.lock().expect("no panic").as_ref().expect("connected").report(Event::Notice(notice));
    };
    (Gateway::new(manager, shutdown), ring)
}

#[tokio::test(start_paused = true)]
async fn a_legacy_session_that_subscribed_hears_of_it_and_another_does_not() {
    let (gateway, ring) = gateway().await;
    let (caller, other) = (session(&gateway, Scope::ALL).await, session(&gateway, Scope::ALL).await);
    let subscribed = ask(&gateway, &caller, method::RESOURCES_SUBSCRIBE, json!({ "uri": URI })).await;
    subscribed.expect("it can be told of");
    let unknown = ask(&gateway, &caller, method::RESOURCES_SUBSCRIBE, json!({"uri": "x://none"})).await;
    assert!(unknown.is_err(), "{unknown:?}");
    let mut feeds = [&caller, &other].map(|caller| gateway.feed(caller).expect("a legacy client"));
    ring();
    let notice = next_notification(&mut feeds[0]).await.expect("told");
    assert!(notice.contains("notifications/resources/updated") && notice.contains(URI), "{notice}");
    assert_eq!(next_notification(&mut feeds[1]).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_that_listens_hears_of_it() {
    let (gateway, ring) = gateway().await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let params = raw(&json!({"notifications": {"resourceSubscriptions": [URI, "x://none"]}}));
    let (id, caller) = (RequestId::from_u64(7), modern());
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        assert!(ack.contains(r#""resourceSubscriptions":["x://context"]"#), "{ack}");
        ring();
        let notice = next_text(&mut receiver).await.expect("a notice");
        assert!(notice.contains("notifications/resources/updated") && notice.contains(URI), "{notice}");
    };
    tokio::select! {
        end = listen(&gateway, &caller, (&id, Some(&params)), &event_sender) => panic!("{end:?}"),
        () = heard => {}
    }
}
