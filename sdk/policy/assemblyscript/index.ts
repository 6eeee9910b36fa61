/**
 * The AssemblyScript SDK for Flynn's policies.
 *
 *	import { RouteAnswer, RouteFacts, abstain, agent, route } from "@flynnhost/policy";
 *	export { flynn_abi, flynn_buffer } from "@flynnhost/policy";
 *
 *	export function flynn_route(size: u32): i64 {
 *	  return route(size, decide);
 *	}
 *
 *	function decide(facts: RouteFacts): RouteAnswer {
 *	  return facts.role.is("owner") ? agent("coder", 1).because("owners code") : abstain();
 *	}
 *
 * Build with `flynn policy dev build`, or by hand with `asc policy.ts -o policy.wasm` where an asconfig.json extends the one of this
 * package.
 *
 * Texts are UTF-8, as the host has them: see Utf8. Whatever a hook makes is gone when it has answered: see arena. The numbers of
 * the contract are in "@flynnhost/policy/abi".
 */
// Named by asconfig.json alone.
import "./abort";

export { Answer, Restriction, RouteAnswer, abstain, agent, ask, deny, drop, sandbox, sandboxIn, unrestricted } from "./answer";
export { Facts, RouteFacts, ToolFacts } from "./facts";
export { flynn_abi, flynn_buffer, route, tool } from "./hooks";
export { Level, cidr, data, domain, glob, log, re2, trace } from "./host";
export { List } from "./list";
export { Utf8, none, utf8 } from "./utf8";
