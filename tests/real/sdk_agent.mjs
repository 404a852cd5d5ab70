// A small agent on the TypeScript SDK of ACP: it thinks, writes a file with permission, and can be cancelled.
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const folders = new Map();
let stop = () => {};

const text = (said) => ({ type: "text", text: said });

async function prompt({ params, client }) {
  const sessionId = params.sessionId;
  const tell = (update) => client.notify(methods.client.session.update, { sessionId, update });
  const said = params.prompt[0].text;
  await tell({ sessionUpdate: "agent_thought_chunk", content: text("Hm.") });
  if (said === "wait") {
    await new Promise((resolve) => (stop = resolve));
    return { stopReason: "cancelled" };
  }
  const path = join(folders.get(sessionId), "note.txt");
  const call = { toolCallId: "w1", title: "Write note.txt", kind: "edit", locations: [{ path }] };
  await tell({ sessionUpdate: "tool_call", ...call, status: "pending", content: [] });
  const asked = await client.request(methods.client.session.requestPermission, {
    sessionId,
    toolCall: { ...call, content: [{ type: "diff", path, newText: said }] },
    options: [
      { optionId: "no", name: "No", kind: "reject_once" },
      { optionId: "yes", name: "Yes", kind: "allow_once" },
    ],
  });
  const allowed = asked.outcome.outcome === "selected" && asked.outcome.optionId === "yes";
  if (allowed) {
    await client.request(methods.client.fs.writeTextFile, { sessionId, path, content: said });
    await tell({ sessionUpdate: "tool_call_update", toolCallId: "w1", status: "completed" });
  }
  await tell({ sessionUpdate: "agent_message_chunk", content: text("I ") });
  await tell({ sessionUpdate: "agent_message_chunk", content: text(allowed ? "wrote it." : "did not.") });
  return { stopReason: "end_turn" };
}

agent({ name: "clerk" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: { loadSession: false },
  }))
  .onRequest(methods.agent.session.new, ({ params }) => {
    const sessionId = `clerk-${folders.size}`;
    folders.set(sessionId, params.cwd);
    return { sessionId };
  })
  .onRequest(methods.agent.session.prompt, prompt)
  .onNotification(methods.agent.session.cancel, () => stop())
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
