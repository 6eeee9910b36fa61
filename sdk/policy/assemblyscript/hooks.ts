import { FRAME_ROUTE, FRAME_TOOL, VERSION } from "./abi";
import { INVALID, Restriction, RouteAnswer } from "./answer";
import { reset, seal } from "./arena";
import { RouteFacts, ToolFacts } from "./facts";
import { isFrame } from "./frame";
import { enlarge, region, regionSize } from "./region";

/** Every policy exports this one: the version of the contract. */
export function flynn_abi(): u32 {
  return VERSION;
}

/** And this one: the address of at least so many bytes for a frame. The host calls it before it asks for a decision. */
export function flynn_buffer(least: u32): usize {
  seal();
  return enlarge(least);
}

/** Answers the routing question of so many bytes; what the export flynn_route returns. */
export function route(size: u32, decide: (facts: RouteFacts) => RouteAnswer): i64 {
  if (size > regionSize() || !isFrame(region(), size, FRAME_ROUTE)) return INVALID;
  const answer = decide(new RouteFacts(region(), total(), count())).encode();
  reset();
  return answer;
}

/** Answers the question of so many bytes about a tool call; what the export flynn_tool returns. */
export function tool(size: u32, decide: (facts: ToolFacts) => Restriction): i64 {
  if (size > regionSize() || !isFrame(region(), size, FRAME_TOOL)) return INVALID;
  const answer = decide(new ToolFacts(region(), total(), count())).encode();
  reset();
  return answer;
}

function count(): u32 {
  return load<u32>(region(), 4) >> 16;
}

function total(): u32 {
  return load<u32>(region(), 8);
}
