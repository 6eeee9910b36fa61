// This policy makes objects of every sort in each decision, and one that stays in its start.
import { RouteAnswer, RouteFacts, abstain, agent, data, route } from "@flynnhost/policy";
export { flynn_abi, flynn_buffer } from "@flynnhost/policy";

const names: string[] = ["alpha", "beta", "gamma"];

export function flynn_route(size: u32): i64 {
  return route(size, decide);
}

function decide(facts: RouteFacts): RouteAnswer {
  const count = new Map<string, i32>();
  const words = facts.fullText.split(32);
  for (let i = 0; i < min(words.length, 8); i++) {
    const word = words[i].toString();
    count.set(word, (count.has(word) ? count.get(word) : 0) + 1);
  }
  const key = data("key");
  const name = names[count.size % names.length] + (key !== null ? key.toString() : "");
  return facts.agents.contains("agent-01") && count.size > 0 ? agent("agent-01", <u32>words.length).because(name) : abstain();
}
