//! `/openapi.json`, generated from the handlers and the wire types.

use axum::Json;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "pullhook relay", description = "Webhooks on localhost, pulled."),
    paths(
        super::environment::show,
        super::listeners::open,
        super::listeners::poll,
        super::listeners::close,
        super::listeners::list,
        super::listeners::show,
        super::events::list,
        super::events::show,
        super::events::create,
        super::events::test,
        super::replay::replay,
        super::sources::list,
        super::sources::create,
        super::sources::show,
        super::sources::update,
        super::sources::delete,
        super::sources::rotate,
        super::sources::sign,
    )
)]
struct Document;

/// The document itself.
pub(in crate::relay) fn openapi() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

pub(super) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}
