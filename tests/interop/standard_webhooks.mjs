// What the npm library says to requests: on stdin a JSON list of {secret, headers, body}, bodies in base64; on stdout a
// list with null for what it accepts, and its reason for what it refuses.

import { Webhook } from "standardwebhooks";

function refusal({ secret, headers, body }) {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
    return null;
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

let input = "";
for await (const piece of process.stdin.setEncoding("utf8")) input += piece;
process.stdout.write(JSON.stringify(JSON.parse(input).map(refusal)));
