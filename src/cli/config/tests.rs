//! Settings: precedence, origins, what is refused.

use super::*;

struct Home(tempfile::TempDir);

impl Home {
    fn new(config: &str, project: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let home = Self(tempfile::tempdir().unwrap());
        let dir = home.0.path().join("pullhook");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), config).unwrap();
        std::fs::set_permissions(dir.join("config.toml"), std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::create_dir(home.0.path().join("app")).unwrap();
        std::fs::write(home.0.path().join("app/pullhook.toml"), project).unwrap();
        home
    }

    fn load(&self, env: &[(&str, &str)], globals: &Globals) -> Result<Settings, CliError> {
        let config = self.0.path().to_str().unwrap();
        let env = Env::of(env.iter().copied().chain([("XDG_CONFIG_HOME", config)]));
        Settings::load(&env, globals, Project::find(&self.0.path().join("app")).unwrap())
    }
}

const CONFIG: &str = "
    profile = 'work'
    [profiles.work]
    api_url = 'https://relay.example.com'
    api_key = 'phk_work_0123456789'
    forward_to = '4000'
    events = 'a.*'
    [profiles.home]
    api_url = 'https://home.example.com'
";

#[test]
fn flag_then_environment_then_project_then_profile() {
    let home = Home::new(CONFIG, "forward_to = '3000'\nsource = 'github'");
    let settings = home.load(&[], &Globals::default()).unwrap();
    assert_eq!(settings.text("forward_to").unwrap().value, "3000");
    assert_eq!(settings.list("events").value, ["a.*"]);
    assert_eq!(settings.list("source").value, ["github"]);
    let settings = home.load(&[("PULLHOOK_FORWARD_TO", "5000")], &Globals::default()).unwrap();
    assert_eq!(settings.text("forward_to").unwrap().origin, Origin::Variable("PULLHOOK_FORWARD_TO"));
    let settings = settings.with_flags([("forward_to", Value::Text("6000".to_owned()))]);
    let shown = settings.text("forward_to").unwrap();
    assert_eq!((shown.value.as_str(), shown.origin), ("6000", Origin::Flag("--forward-to")));
}

#[test]
fn a_profiles_key_goes_to_its_own_url_only() {
    let home = Home::new(CONFIG, "");
    let served = home.load(&[], &Globals::default()).unwrap().served().unwrap().unwrap();
    assert_eq!(served.key.value, Secret::new("phk_work_0123456789"));
    let elsewhere = |url: &str| Globals { api_url: Some(url.to_owned()), ..Globals::default() };
    let same = home.load(&[], &elsewhere("https://relay.example.com:443/")).unwrap();
    assert!(same.served().unwrap().is_some(), "another spelling of the same URL");
    let other = home.load(&[], &elsewhere("https://evil.example.com")).unwrap().served().unwrap_err();
    assert_eq!(other.exit().code(), 2);
    assert!(other.hints()[1].contains("https://relay.example.com/ only"), "{:?}", other.hints());
    let with_key = home.load(&[("PULLHOOK_API_KEY", "k")], &elsewhere("https://x.example.com")).unwrap();
    assert_eq!(with_key.served().unwrap().unwrap().key.value, Secret::new("k"));
}

#[test]
fn a_profile_may_be_named_anywhere_but_must_exist() {
    let home = Home::new(CONFIG, "profile = 'home'");
    assert_eq!(home.load(&[], &Globals::default()).unwrap().profile.value, "home");
    let named = home.load(&[("PULLHOOK_PROFILE", "wrok")], &Globals::default()).unwrap_err();
    assert!(named.message().contains("did you mean `work`? (PULLHOOK_PROFILE)"), "{named}");
    let keyless = home.load(&[], &Globals::default()).unwrap().served().unwrap_err();
    assert_eq!(
        keyless.message(),
        format!(
            "no key for https://home.example.com/ ({}, profile `home`)",
            home.0.path().join("pullhook/config.toml").display()
        )
    );
}

#[test]
fn an_env_file_of_a_cloned_project_stays_inside() {
    assert!(Home::new("", "env_file = '.env.local'").load(&[], &Globals::default()).is_ok());
    for outside in ["../x", "/etc/x", "a/../../x"] {
        let home = Home::new("", &format!("env_file = '{outside}'"));
        let error = home.load(&[], &Globals::default()).unwrap_err();
        assert!(error.message().contains("outside the project's folder"), "{error}");
    }
}

#[test]
fn everything_wrong_in_both_files_is_one_message() {
    let home = Home::new("colour = 1\n[profiles.a]\napi_urll = 'x'", "api_url = 'http://x'");
    let error = home.load(&[], &Globals::default()).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("3 settings are wrong:\n  - unknown key `api_urll`; did you mean `api_url`?"),
        "{error}"
    );
}

#[test]
fn relay_urls() {
    for (text, want) in [
        ("http://127.0.0.1:4750", Ok("http://127.0.0.1:4750/")),
        ("https://x.example.com/base", Ok("https://x.example.com/base/")),
        ("ftp://x", Err("it starts with http:// or https://")),
        ("https://u:p@x", Err("it takes no user or password")),
        ("https://x?a=1", Err("it takes no query or fragment")),
        ("localhost:3000", Err("it starts with http:// or https://")),
        ("", Err("it starts with http:// or https://")),
    ] {
        let got = normal_url(text).map(String::from);
        assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
    }
}

#[test]
fn a_key_without_a_relay_is_said() {
    let home = Home::new("", "");
    let settings = home.load(&[("PULLHOOK_API_KEY", "k")], &Globals::default()).unwrap();
    assert_eq!(settings.served().unwrap(), None);
    assert!(settings.warnings()[0].contains("PULLHOOK_API_KEY is not used"));
}
