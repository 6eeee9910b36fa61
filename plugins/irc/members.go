package main

import (
	"slices"
	"strings"
)

// members holds the ranks of people in channels, as announced by the server. A channel whose changes cannot be followed reliably is
// forgotten, and its list is requested again.
type members struct {
	ranks    string // mode letters, the most powerful first
	marks    string // the prefix of a nick in a list, for each rank
	argument string // further modes that always have an argument
	setting  string // modes that have one when they are set
	plain    string // modes that never have one

	channels map[string]map[string]string // by folded channel and nick: the mode letters of its ranks
	fresh    map[string]bool              // channels whose list is being received
}

// Limits of the state that a server can make us store.
const (
	maxMemberChannels = 512
	maxRanked         = 4096 // in one channel
)

// newMembers starts with the modes of RFC 2811; a server that has other modes announces them in its greeting.
func newMembers() *members {
	return &members{
		ranks: "ov", marks: "@+", argument: "beIk", setting: "l", plain: "aimnqpsrtzOR",
		channels: map[string]map[string]string{}, fresh: map[string]bool{},
	}
}

// roleWords are the roles of a sender in events.
var roleWords = map[rune]string{'q': "owner", 'a': "admin", 'o': "op", 'h': "halfop", 'v': "voice"}

// roles returns a person's ranks in a channel, the most powerful first. A rank without a common name keeps its letter.
func (m *members) roles(channel, nick string) []string {
	has := m.channels[fold(channel)][fold(nick)]
	var out []string
	for _, mode := range m.ranks {
		switch word := roleWords[mode]; {
		case !strings.ContainsRune(has, mode):
		case word != "":
			out = append(out, word)
		default:
			out = append(out, "mode-"+string(mode))
		}
	}
	return out
}

// support reads the line 005, in which a server announces its modes.
func (m *members) support(l line) {
	for _, p := range l.params[min(1, len(l.params)):] {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "PREFIX":
			modes, marks, ok := strings.Cut(strings.TrimPrefix(value, "("), ")")
			if ok && len(modes) == len(marks) && len(modes) <= 16 {
				m.ranks, m.marks = modes, marks
			}
		case "CHANMODES":
			if groups := strings.Split(value, ","); len(groups) >= 4 && len(value) <= 256 {
				m.argument, m.setting, m.plain = groups[0]+groups[1], groups[2], groups[3]
			}
		}
	}
}

// names reads a line 353, a piece of a channel's list. The first piece replaces what was known.
func (m *members) names(channel, list string) {
	c := fold(channel)
	if !m.fresh[c] {
		if len(m.channels) >= maxMemberChannels {
			return
		}
		m.channels[c], m.fresh[c] = map[string]string{}, true
	}
	for word := range strings.FieldsSeq(list) {
		has := ""
		for word != "" {
			i := strings.IndexByte(m.marks, word[0])
			if i < 0 {
				break
			}
			has, word = has+m.ranks[i:i+1], word[1:]
		}
		nick, _, _ := strings.Cut(word, "!")
		m.set(c, nick, has)
	}
}

// listed ends a list.
func (m *members) listed(channel string) { delete(m.fresh, fold(channel)) }

func (m *members) set(channel, nick, has string) {
	ranked := m.channels[channel]
	switch {
	case ranked == nil:
	case has == "":
		delete(ranked, fold(nick))
	case len(ranked) < maxRanked:
		ranked[fold(nick)] = has
	}
}

// mode applies a change of modes. It returns false if it cannot: the channel is forgotten then, and its list has to be requested.
func (m *members) mode(channel string, modes string, args []string) bool {
	c, on := fold(channel), true
	for _, mode := range modes {
		takes := strings.ContainsRune(m.ranks+m.argument, mode) || on && strings.ContainsRune(m.setting, mode)
		switch {
		case mode == '+' || mode == '-':
			on = mode == '+'
			continue
		case !takes && !strings.ContainsRune(m.setting+m.plain, mode):
			m.forget(c)
			return false
		case !takes:
			continue
		case len(args) == 0:
			if strings.ContainsRune(m.ranks, mode) { // a list such as that of bans may be requested without one
				m.forget(c)
				return false
			}
			continue
		}
		if strings.ContainsRune(m.ranks, mode) {
			m.change(c, args[0], string(mode), on)
		}
		args = args[1:]
	}
	return true
}

func (m *members) change(channel, nick, mode string, on bool) {
	has := strings.ReplaceAll(m.channels[channel][fold(nick)], mode, "")
	if on {
		has += mode
	}
	m.set(channel, nick, has)
}

// forget drops a channel.
func (m *members) forget(channel string) {
	delete(m.channels, fold(channel))
	delete(m.fresh, fold(channel))
}

// leave drops somebody's ranks in a channel.
func (m *members) leave(channel, nick string) { delete(m.channels[fold(channel)], fold(nick)) }

// quit drops somebody's ranks everywhere.
func (m *members) quit(nick string) {
	for c := range m.channels {
		m.leave(c, nick)
	}
}

// rename moves a person's ranks to another nick, replacing those of that nick.
func (m *members) rename(old, next string) {
	for c, ranked := range m.channels {
		has := ranked[fold(old)]
		delete(ranked, fold(old))
		m.set(c, next, has)
	}
}

// follow updates the state by one line of the server. ask names a channel whose list has to be requested.
func (m *members) follow(l line, own bool) (ask string) {
	switch l.command {
	case "005":
		m.support(l)
	case "353":
		if i := slices.IndexFunc(l.params, isChannel); i >= 0 {
			m.names(l.params[i], l.last())
		}
	case "366":
		m.listed(l.param(1))
	case "MODE":
		if isChannel(l.param(0)) && !m.mode(l.param(0), l.param(1), l.params[min(2, len(l.params)):]) {
			return l.param(0)
		}
	case "JOIN", "PART":
		m.gone(l.param(0), l.nick(), own)
	case "KICK":
		m.leave(l.param(0), l.param(1))
	case "QUIT":
		m.quit(l.nick())
	case "NICK":
		m.rename(l.nick(), l.last())
	}
	return ""
}

// gone removes the ranks of a person who has left a channel or has just joined it, and the whole channel if that is the bot.
func (m *members) gone(channel, nick string, own bool) {
	if own {
		m.forget(channel)
		return
	}
	m.leave(channel, nick)
}
