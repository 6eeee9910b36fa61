package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
)

// event converts a mail to an event; ok is false if it is empty or has no sender.
func (s settings) event(l *letter, at position) (out channel.Event, ok bool) {
	if l.From == "" {
		return out, false
	}
	sender := channel.Sender{ID: l.From, Name: l.Name, Self: l.From == s.Address, Bot: l.Automatic}
	if s.RequireAuthenticated && !vouched(l.Results, s.AuthservID, l.From) {
		sender.ID = unproven(l.From)
	}
	if sender.Name == "" {
		sender.Name = l.From
	}
	id := fmt.Sprintf("%d:%d", at.Validity, at.UID)
	if l.ID != "" {
		// The sender is part of the id: a person who has seen a mail could send another one with the same Message-ID, and the host would
		// treat one of them as a repeat.
		id = l.ID + "/" + digest(4, sender.ID)
	}
	out = channel.Event{
		ID: id, Sender: sender, SentAt: at.At, Text: l.Text, ReplyTo: l.AnswerTo,
		Conversation: channel.Conversation{ID: sender.ID + "/" + l.threadOf(s.Address, id), Kind: channel.DM},
		Addressed:    slices.Contains(l.To, s.Address),
	}
	if len(l.Thread) == 0 { // many write all of it into the subject
		out.Text = strings.TrimSpace(l.Subject + "\n\n" + l.Text)
	}
	for _, f := range l.Files {
		out.Attachments = append(out.Attachments, channel.Attachment{
			Handle: fmt.Sprintf("%d/%d/%s/%s", at.Validity, at.UID, f.Part, f.Encoding), Name: f.Name, Type: f.Type, Size: f.Size,
		})
	}
	return out, out.Text != "" || len(out.Attachments) > 0
}

// unproven returns the id of a sender who may be anybody. It holds no "@" and ends in "?", so that no rule for an address, a domain or a part of
// one matches it.
func unproven(address string) string { return "?" + strings.Replace(address, "@", "(at)", 1) + "?" }
