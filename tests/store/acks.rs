//! Acks: fenced by the newest hand-out's token, final, counted once.

use pullhook::store::claims::{Ack, State, Token};
use pullhook::store::{event_list, logs};

use crate::harness::{LEASE, World, ack, failure};
use crate::on_both_engines;

async fn only_delivery(world: &World) -> event_list::DeliveryShown {
    let now = world.now();
    world.read(move |tx| Ok(event_list::deliveries(tx, 1, now)?.remove(0))).await
}

async fn only_event(world: &World) -> event_list::Listed {
    let search = event_list::Search { environment_id: world.env.clone(), limit: 1, ..Default::default() };
    world.read(move |tx| Ok(event_list::page(tx, &search)?.0.remove(0))).await
}

on_both_engines! {
    async fn an_ack_is_final_and_writes_one_log_line(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        assert_eq!(only_delivery(world).await.status, "leased");
        let polled = world.ack(&listener, vec![ack(&handed[0])]).await;
        assert_eq!((polled.acknowledged, polled.claimed.waiting), (1, 0));
        let shown = only_delivery(world).await;
        assert_eq!((shown.status, shown.status_code, shown.duration_ms), ("delivered", Some(200), Some(5)));
        assert_eq!((shown.finished_at, only_event(world).await.status), (Some(world.now()), "delivered"));
        let env = world.env.clone();
        let trail = world.read(move |tx| logs::trail(tx, &env)).await;
        assert_eq!(trail, [("webhook.forward".to_owned(), handed[0].id.clone())]);
        world.advance(LEASE);
        assert!(world.claim(&listener).await.is_empty());
    }

    async fn a_failure_is_final_too(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        let refused = Ack { status_code: None, error: Some("connection refused".to_owned()), ..failure(&handed[0]) };
        assert_eq!(world.ack(&listener, vec![refused]).await.acknowledged, 1);
        let shown = only_delivery(world).await;
        assert_eq!((shown.status, shown.status_code, shown.error.as_deref()), ("failed", None, Some("connection refused")));
        assert_eq!(only_event(world).await.status, "failed");
        world.advance(LEASE);
        assert!(world.claim(&listener).await.is_empty());
    }

    async fn skipped_is_neither(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        let skipped = Ack { state: State::Skipped, status_code: None, ..ack(&handed[0]) };
        world.ack(&listener, vec![skipped]).await;
        assert_eq!((only_delivery(world).await.status, only_event(world).await.status), ("skipped", "skipped"));
        assert_eq!(world.texts("SELECT level FROM logs").await, ["info"]);
    }

    async fn a_repeated_ack_changes_nothing(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let handed = world.claim(&listener).await;
        let polled = world.ack(&listener, vec![ack(&handed[0]), failure(&handed[0])]).await;
        assert_eq!((polled.acknowledged, polled.stale_acks.len()), (1, 0));
        let again = world.ack(&listener, vec![failure(&handed[0])]).await;
        assert_eq!((again.acknowledged, again.stale_acks.len()), (0, 0));
        assert_eq!(only_delivery(world).await.status, "delivered");
        assert_eq!(world.number("SELECT COUNT(*) FROM logs").await, 1);
    }

    async fn a_late_ack_counts_until_the_next_hand_out(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let first = world.claim(&listener).await;
        world.advance(LEASE * 2);
        assert_eq!(world.ack(&listener, vec![ack(&first[0])]).await.acknowledged, 1);
    }

    async fn a_superseded_ack_is_named_and_changes_nothing(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let first = world.claim(&listener).await;
        world.advance(LEASE);
        let second = world.claim(&listener).await;
        let polled = world.ack(&listener, vec![failure(&first[0])]).await;
        assert_eq!((polled.acknowledged, polled.stale_acks), (0, vec![first[0].id.clone()]));
        assert_eq!(only_delivery(world).await.status, "leased");
        assert_eq!(world.ack(&listener, vec![ack(&second[0])]).await.acknowledged, 1);
        let late = world.ack(&listener, vec![failure(&first[0])]).await;
        assert_eq!(late.stale_acks, [first[0].id.as_str()]);
        assert_eq!(only_delivery(world).await.status, "delivered");
    }

    async fn an_ack_after_exhaustion_changes_nothing(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let mut last = Vec::new();
        for _ in 0..5 {
            last = world.claim(&listener).await;
            world.advance(LEASE);
        }
        assert!(world.claim(&listener).await.is_empty());
        assert_eq!(world.ack(&listener, vec![ack(&last[0])]).await.acknowledged, 0);
        assert_eq!(only_delivery(world).await.status, "exhausted");
    }

    async fn foreign_and_unknown_acks_change_nothing(world: World) {
        let (listener, other) = (world.open().await, world.open().await);
        world.ingest("x").await;
        let (mine, theirs) = (world.claim(&listener).await, world.claim(&other).await);
        let unknown = Ack {
            token: Token { delivery_id: "whlisdel_unknown".to_owned(), ack_token: mine[0].ack_token.clone() },
            ..ack(&mine[0])
        };
        let crossed = Ack {
            token: Token { delivery_id: theirs[0].id.clone(), ack_token: mine[0].ack_token.clone() },
            ..ack(&mine[0])
        };
        let polled = world.ack(&listener, vec![ack(&theirs[0]), unknown, crossed]).await;
        assert_eq!((polled.acknowledged, polled.stale_acks.len()), (0, 0));
        assert_eq!(world.ack(&other, vec![ack(&theirs[0])]).await.acknowledged, 1);
    }

    async fn what_was_taken_back_after_a_cut_is_stale(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let first = world.claim(&listener).await;
        let mut poll = world.polling(&listener);
        (poll.holding, poll.limit) = (Some(Vec::new()), 0);
        world.poll_with(poll).await;
        let polled = world.ack(&listener, vec![ack(&first[0])]).await;
        assert_eq!((polled.acknowledged, polled.stale_acks), (0, vec![first[0].id.clone()]));
    }

    async fn acks_come_before_the_claim_of_the_same_poll(world: World) {
        let listener = world.open().await;
        world.ingest("x").await;
        let first = world.claim(&listener).await;
        world.advance(LEASE);
        let mut poll = world.polling(&listener);
        poll.acks = vec![ack(&first[0])];
        let polled = world.poll_with(poll).await;
        assert_eq!((polled.acknowledged, polled.claimed.deliveries.len()), (1, 0));
    }
}
