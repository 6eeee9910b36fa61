package link

import "encoding/json"

// Place says where a call runs.
func Place(where string) string {
	switch where {
	case "", "host":
		return "on the host"
	case "sandbox":
		return "in the sandbox"
	case "own container":
		return "in a container of its own"
	}
	return "in sandbox " + where
}

// Gist is the one argument that tells calls of the same tool apart.
func Gist(raw json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(raw, &args) != nil {
		return string(raw)
	}
	for _, name := range []string{"command", "script", "path", "url", "query", "task"} {
		if s, ok := args[name].(string); ok {
			return s
		}
	}
	return string(raw)
}
