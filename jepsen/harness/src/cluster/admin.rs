//! The administrator's calls, from a host of its own.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use orloj_wire::rest;
use orloj_wire::sign::{Label, Outgoing, Secret};
use serde_json::json;

use super::files::Keys;
use super::http::{self, Answer};
use crate::fabric::Fabric;
use crate::hosts::{self, ADMIN, API_PORT, DEBUG_PORT, REPLICAS};
use crate::wall;

/// For one call.
const PATIENCE: Duration = Duration::from_secs(5);

/// Speaks to the cluster as its administrator. Works on the fabric only: what is cut off does not answer.
#[derive(Debug, Clone)]
pub struct Admin {
    key: String,
    secret: Secret,
    caller: String,
    caller_secret: Secret,
}

impl Admin {
    /// The administrator of these keys.
    ///
    /// # Errors
    /// An empty secret.
    pub fn new(keys: &Keys) -> Result<Admin> {
        let secret = |text: &str| Secret::new(text).context("an empty secret");
        Ok(Admin {
            key: keys.admin_key.clone(),
            secret: secret(&keys.admin_secret)?,
            caller: keys.access_key.clone(),
            caller_secret: secret(&keys.secret_key)?,
        })
    }

    /// One signed call to one replica.
    fn call(
        &self,
        fabric: &Fabric,
        replica: &str,
        label: Label,
        request: (&str, &str, &str),
        idempotency: &str,
    ) -> Result<Answer> {
        let (method, path, body) = request;
        let (key, secret) = match label {
            Label::Admin => (&self.key, &self.secret),
            _ => (&self.caller, &self.caller_secret),
        };
        let outgoing = Outgoing {
            label,
            audience: "default",
            access_key: key,
            method,
            path,
            query: "",
            idempotency_key: idempotency,
            body: body.as_bytes(),
        };
        let mut headers: Vec<(&str, String)> = outgoing.headers(secret, wall::seconds()).into();
        headers.push(("content-type", "application/json".to_owned()));
        if !idempotency.is_empty() {
            headers.push(("idempotency-key", idempotency.to_owned()));
        }
        let address = hosts::address(replica, API_PORT);
        let send = || http::call(&address, method, path, &headers, body.as_bytes(), PATIENCE);
        fabric.host(ADMIN).run_inside(send)
    }

    /// The first good answer of any replica.
    fn any(
        &self,
        fabric: &Fabric,
        label: Label,
        request: (&str, &str, &str),
        idempotency: &str,
    ) -> Result<Answer> {
        let mut last = anyhow::anyhow!("no replica was asked");
        for replica in REPLICAS {
            match self.call(fabric, replica, label, request, idempotency) {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(answer),
                Ok(answer) => last = anyhow::anyhow!("{replica}: {} {}", answer.status, answer.body),
                Err(error) => last = error,
            }
        }
        Err(last).with_context(|| format!("{} {}", request.0, request.1))
    }

    /// The cluster as some replica sees it.
    ///
    /// # Errors
    /// None answers.
    pub fn view(&self, fabric: &Fabric) -> Result<rest::Cluster> {
        let answer = self.any(fabric, Label::Admin, ("GET", "/openapi/v1/cluster", ""), "")?;
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// The cluster as this replica sees it.
    ///
    /// # Errors
    /// It does not answer.
    pub fn view_of(&self, fabric: &Fabric, replica: &str) -> Result<rest::Cluster> {
        let answer = self.call(fabric, replica, Label::Admin, ("GET", "/openapi/v1/cluster", ""), "")?;
        if answer.status != 200 {
            bail!("{replica}: {} {}", answer.status, answer.body);
        }
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// The id under which the replica at this host is a member, as the cluster sees it.
    ///
    /// # Errors
    /// None answers.
    pub fn member(&self, fabric: &Fabric, replica: &str) -> Result<Option<u64>> {
        let api = format!("http://{}", hosts::address(replica, API_PORT));
        let view = self.view(fabric)?;
        Ok(view.members.iter().find(|member| member.api == api).map(|member| member.id))
    }

    /// Moves the leadership to a member.
    ///
    /// # Errors
    /// Refused, or no answer.
    pub fn transfer(&self, fabric: &Fabric, to: u64) -> Result<()> {
        let body = json!({ "to": to }).to_string();
        self.any(fabric, Label::Admin, ("POST", "/openapi/v1/cluster/transfer", &body), "").map(drop)
    }

    /// Removes a member.
    ///
    /// # Errors
    /// Refused, or no answer.
    pub fn remove(&self, fabric: &Fabric, id: u64) -> Result<()> {
        let path = format!("/openapi/v1/cluster/members/{id}/remove");
        self.any(fabric, Label::Admin, ("POST", &path, ""), "").map(drop)
    }

    /// Lets a replica take a snapshot now.
    ///
    /// # Errors
    /// It does not answer.
    pub fn snapshot(&self, fabric: &Fabric, replica: &str) -> Result<String> {
        let address = format!("127.0.0.1:{DEBUG_PORT}");
        let ask = || http::call(&address, "POST", "/debug/snapshot", &[], b"", PATIENCE);
        let answer = fabric.host(replica).run_inside(ask)?;
        if answer.status != 200 {
            bail!("{replica}: {} {}", answer.status, answer.body);
        }
        Ok(answer.body)
    }

    /// Submits a task as the harness's caller, at this replica.
    ///
    /// # Errors
    /// No answer.
    pub fn submit(&self, fabric: &Fabric, replica: &str, body: &str, key: &str) -> Result<Answer> {
        self.call(fabric, replica, Label::Caller, ("POST", "/openapi/v1/tasks", body), key)
    }

    /// Reads a task as the harness's caller.
    ///
    /// # Errors
    /// None answers.
    pub fn task(&self, fabric: &Fabric, id: &str) -> Result<serde_json::Value> {
        let answer = self.any(fabric, Label::Caller, ("GET", &format!("/openapi/v1/tasks/{id}"), ""), "")?;
        Ok(serde_json::from_str(&answer.body)?)
    }
}
