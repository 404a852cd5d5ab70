// What each access lets a turn do, in one sentence.

import type { Access, AgentReport } from "../words";

export const ACCESSES: Access[] = ["read", "write", "full"];

export const MEANING: Record<Access, string> = {
  read: "Can read, but change nothing.",
  write: "Can change files in the folder.",
  full: "Can do anything you can, without asking.",
};

/** What keeps an agent to an access, in one sentence; "" where nothing is known or nothing has to be kept. */
export function keptBy(report: AgentReport | null, access: Access): string {
  const kept = report?.kept[access];
  if (!report || !kept) return "";
  const because = kept.why ? `: ${kept.why}` : "";
  if (kept.by === "wall") return "Kept to that by a wall in the kernel.";
  if (kept.by === "sandbox") return `Kept to that by ${report.name}'s own sandbox.`;
  return kept.by === "denied" ? `Refused${because}.` : `Kept to that by ${report.name}'s own flags alone${because}.`;
}

/** Whether the machine keeps it to the access, not only the agent's word. */
export function isShielded(report: AgentReport | null, access: Access): boolean {
  const by = report?.kept[access]?.by;
  return by === "wall" || by === "sandbox";
}
