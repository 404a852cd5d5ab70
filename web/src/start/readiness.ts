// Whether an agent can take a turn, and what to do where it cannot. Pure.

import type { AgentReport } from "../words";
import type { Mark } from "../lib/icons";

export interface Readiness {
  ready: boolean;
  mark: Mark;
  word: string;
  say: string; // what it can do, or what has to be done first
  code: string; // a command that helps
}

export function readiness(report: AgentReport, only: string | null): Readiness {
  const say = able(report);
  if (only && report.name !== only) return { ready: true, mark: "done", word: "scripted", say: `played by ${only}`, code: "" };
  if (!report.installed) return { ready: false, mark: "idle", word: "not installed", say: "", code: report.install };
  if (report.login === "no") {
    return { ready: false, mark: "limited", word: "log in", say: "Log in first:", code: report.login_command };
  }
  if (report.problem) return { ready: true, mark: "limited", word: "check", say: report.problem, code: "" };
  if (report.login !== "yes") return { ready: true, mark: "idle", word: "installed", say: `login unknown; ${say}`, code: "" };
  return { ready: true, mark: "done", word: "ready", say, code: "" };
}

/** "resume, fork, schema": what is False or "no" is left out. */
function able(report: AgentReport): string {
  if (report.built_in) return "costs nothing; try things with it";
  const found = Object.entries(report.abilities).filter(([, value]) => value !== false && value !== "no" && value);
  return found.map(([name]) => name.replaceAll("_", " ")).join(", ");
}
