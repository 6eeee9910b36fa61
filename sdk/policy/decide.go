package policy

import "github.com/flynnhost/flynn/sdk/policy/abi"

// decideRoute answers the route frame in region[:n].
func decideRoute(region []byte, n uint32) int64 {
	if hooks.route == nil {
		// A Go module exports both hooks whatever it registers. If it is configured for a kind without a function, it must fail:
		// restricting nothing, or abstaining, would hide the mistake.
		return unregistered("policy: no function is registered with policy.Route")
	}
	f, ok := open(region, n, abi.FrameRoute)
	if !ok {
		return invalid
	}
	return hooks.route(RouteFacts{Facts{f}}).encode(region)
}

// decideTool answers the tool frame in region[:n].
func decideTool(region []byte, n uint32) int64 {
	if hooks.tool == nil {
		return unregistered("policy: no function is registered with policy.Tool")
	}
	f, ok := open(region, n, abi.FrameTool)
	if !ok {
		return invalid
	}
	return hooks.tool(ToolFacts{Facts{f}}).encode(region)
}

func unregistered(why string) int64 {
	Log(Error, why)
	return invalid
}

func open(region []byte, n, kind uint32) (frame, bool) {
	memory.reset()
	if uint64(n) > uint64(len(region)) {
		return frame{}, false
	}
	return openFrame(region[:n], kind)
}
