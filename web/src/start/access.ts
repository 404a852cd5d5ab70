// What each access lets a turn do, in one sentence.

import type { Access } from "../words";

export const ACCESSES: Access[] = ["read", "write", "full"];

export const MEANING: Record<Access, string> = {
  read: "Looks, changes nothing.",
  write: "May change files in the folder.",
  full: "May do anything you may do, without asking.",
};
