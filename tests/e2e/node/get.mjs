// Prints what node's own fetch gets at a URL: a JSON line of status, fields and body, or the events as they come.
// Before version 22.21 fetch reads no proxy variables; undici's agent, made the global one, reads them for it.
import { EnvHttpProxyAgent, setGlobalDispatcher } from "undici";

setGlobalDispatcher(new EnvHttpProxyAgent());

const [url, key] = process.argv.slice(2);
if (key === undefined) {
  const answer = await fetch(url);
  console.log(JSON.stringify([answer.status, Object.fromEntries(answer.headers), await answer.text()]));
} else {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: '{"stream": true}' });
  for await (const part of answer.body) process.stdout.write(part);
}
