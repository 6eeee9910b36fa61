package main

import "strings"

// emojis returns the reactions that an agent is likely to use or to meet. Slack knows a reaction by its name only.
func emojis() [][2]string {
	return [][2]string{
		{"👍", "+1"}, {"👍", "thumbsup"}, {"👎", "-1"}, {"👎", "thumbsdown"}, {"❤", "heart"}, {"👀", "eyes"}, {"✅", "white_check_mark"},
		{"✔", "heavy_check_mark"}, {"❌", "x"}, {"🎉", "tada"}, {"🙏", "pray"}, {"😂", "joy"}, {"🚀", "rocket"}, {"🔥", "fire"}, {"💯", "100"},
		{"🤔", "thinking_face"}, {"😄", "smile"}, {"😢", "cry"}, {"⚠", "warning"}, {"⏳", "hourglass_flowing_sand"}, {"👏", "clap"}, {"👌", "ok_hand"},
		{"🙌", "raised_hands"}, {"👋", "wave"}, {"🤖", "robot_face"}, {"⛔", "no_entry"}, {"🚫", "no_entry_sign"}, {"❓", "question"}, {"❗", "exclamation"},
		{"💡", "bulb"}, {"🐛", "bug"}, {"🔁", "repeat"}, {"⏸", "double_vertical_bar"}, {"😮", "open_mouth"}, {"💔", "broken_heart"}, {"⭐", "star"},
	}
}

// emoji returns the character of a reaction, or its name if it is not in the list.
func emoji(name string) string {
	base, _, _ := strings.Cut(name, "::") // "+1::skin-tone-2"
	for _, e := range emojis() {
		if e[1] == base {
			return e[0]
		}
	}
	return name
}

// reactionName is the inverse of emoji; a name stays itself.
func reactionName(reaction string) string {
	bare := strings.TrimSuffix(strings.Trim(reaction, ":"), "\uFE0F")
	for _, e := range emojis() {
		if e[0] == bare {
			return e[1]
		}
	}
	return bare
}
