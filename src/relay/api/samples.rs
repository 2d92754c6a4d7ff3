//! Samples for `POST /v1/webhook_events/test`: what an event of a type looks like.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Type to `data`, as a receiver would see it.
static SAMPLES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("samples.json")).unwrap_or_default());

/// The sample of a type, or a generic one where there is none.
pub(super) fn of(kind: &str) -> Map<String, Value> {
    match SAMPLES.get(kind) {
        Some(Value::Object(data)) => data.clone(),
        _ => {
            let object = kind.split('.').next().unwrap_or(kind);
            let generic = json!({ "id": "obj_01k7y3w8q2m5t9x4c6v1b0n7z3", "object": object });
            generic.as_object().cloned().unwrap_or_default()
        }
    }
}

/// Lays `over` on `under`: objects merge, anything else replaces.
pub(super) fn merge(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_merge_and_the_rest_replaces() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let mut data = map(json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 }));
        merge(&mut data, map(json!({ "a": { "c": [3] }, "d": { "e": 1 }, "f": null })));
        assert_eq!(data, map(json!({ "a": { "b": 1, "c": [3] }, "d": { "e": 1 }, "f": null })));
    }

    #[test]
    fn unknown_types_get_a_generic_sample() {
        assert_eq!(of("parcel.lost").get("object"), Some(&json!("parcel")));
        assert!(serde_json::from_str::<Map<String, Value>>(include_str!("samples.json")).is_ok());
    }
}
