// Hands prompts, answers, reports of sub-agents and summaries to vector-memory, and adds what it recalls to the system prompt.
import { spawnSync } from "node:child_process"

const COMMANDS = {}

export const VectorMemory = async ({ directory }) => {
  const parents = new Map(), agents = new Map(), latest = new Map(), recalled = new Map()

  const hook = (event, sessionID, data) => {
    try {
      const input = JSON.stringify({ session_id: sessionID, ...data })
      const run = spawnSync("/bin/sh", ["-c", COMMANDS[event]], { cwd: directory, input, timeout: 5000 })
      return run.stdout?.toString() ?? ""
    } catch {
      return ""
    }
  }

  return {
    "chat.message": async ({ sessionID, agent }, { parts }) => {
      agents.set(sessionID, agent)
      if (parents.has(sessionID)) return
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
      const context = hook("prompt", sessionID, { prompt: texts.map((part) => part.text).join("\n") })
      if (context) recalled.set(sessionID, [...(recalled.get(sessionID) ?? []), context])
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      system.push(...(recalled.get(sessionID) ?? []))
    },
    "experimental.text.complete": async ({ sessionID }, { text }) => {
      latest.set(sessionID, text)
    },
    event: async ({ event: { type, properties } }) => {
      if (type === "session.created" && properties.info.parentID) {
        parents.set(properties.info.id, properties.info.parentID)
      }
      const sessionID = properties?.sessionID, text = latest.get(sessionID)
      if (!text || (type !== "session.idle" && type !== "session.compacted")) return
      latest.delete(sessionID)
      let root = sessionID
      while (parents.has(root)) root = parents.get(root)
      if (type === "session.compacted") {
        if (root === sessionID) hook("compaction", root, { compact_summary: text })
        return
      }
      const agent_type = agents.get(sessionID) ?? "subagent"
      hook(root === sessionID ? "answer" : "subagent", root, { last_assistant_message: text, agent_type })
    },
  }
}
