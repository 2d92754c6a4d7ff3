//! `GET /v1/environment`: what a key opens.

use axum::Json;

use super::Caller;
use crate::protocol::CURRENT_VERSION;
use crate::protocol::environment::{Environment, KeyShown, Named, Organization};

/// The environment of the key that asks; any valid key may.
#[utoipa::path(get, path = "/v1/environment", responses((status = 200, body = Environment)))]
pub(super) async fn show(caller: Caller) -> Json<Environment> {
    let access = &caller.access;
    let environment = &access.environment;
    // One project of one organization holds every environment of a relay; they exist for other clients' sake.
    let project = Named {
        id: format!("prj_{}", environment.id.trim_start_matches("env_")),
        name: environment.name.clone(),
        slug: environment.slug.clone(),
    };
    let organization = Organization {
        id: "org_local".to_owned(),
        name: "This relay".to_owned(),
        slug: "this-relay".to_owned(),
        api_version: Some(CURRENT_VERSION.to_owned()),
    };
    Json(Environment {
        object: "environment".to_owned(),
        id: environment.id.clone(),
        name: environment.name.clone(),
        slug: environment.slug.clone(),
        mode: environment.mode.clone(),
        project,
        organization,
        api_key: KeyShown {
            id: access.key_id.clone(),
            name: access.key_name.clone(),
            start: access.key_start.clone(),
            access: access.access.clone(),
            permissions: access.permissions.clone(),
        },
    })
}
