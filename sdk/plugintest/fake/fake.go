// Package fake is for programs that imitate a chat platform, so that `flynn plugin dev conform` can test a plugin against it. conform.toml
// beside plugin.toml names the program, which is started for each check.
//
// Such a program speaks JSON lines. Its first line contains its address, in the form of the plugin's own settings; then it executes each
// line on its standard input, and ends when that ends:
//
//	out {"ready":{"settings":{"address":"127.0.0.1:4711"},"secrets":{"token":"t"}}}
//	in  {"post":{"id":"1","text":"hello"}}         a person writes this to the plugin in private
//	in  {"webhook":{"url":"http://127.0.0.1:4712/hooks/x"}}     the address where the plugin accepts requests, each time that it starts listening
//	in  {"disconnect":true}                         break every connection
//	out {"shown":{"text":"hi"}}                     the platform shows a new message of the plugin
//	out {"edited":{"text":"hi!"}}                   it shows an edited one
//	out {"typing":true}                             it shows that the plugin is typing
//
// A Go program calls Main, which handles the lines. Both sides ignore unknown lines and keys.
package fake

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// Ready has the plugin's settings and secrets for this platform; they are added to those in conform.toml.
type Ready struct {
	Settings map[string]any    `json:"settings,omitempty"`
	Secrets  map[string]string `json:"secrets,omitempty"`
}

// Post is a private message of a person to the plugin.
type Post struct {
	ID   string `json:"id"` // unique; the platform's own id of the message may differ
	Text string `json:"text"`
	// Media, if above zero, requests an attachment of that many bytes. A platform without attachments posts the text alone.
	Media int `json:"media,omitempty"`
}

// Webhook is an address at which the plugin accepts the platform's requests.
type Webhook struct {
	URL string `json:"url"`
}

// Shown is a message of the plugin as people see it.
type Shown struct {
	Text string `json:"text"`
}

// Command is a line to the platform: one of its fields is set.
type Command struct {
	Post       *Post    `json:"post,omitempty"`
	Webhook    *Webhook `json:"webhook,omitempty"`
	Disconnect bool     `json:"disconnect,omitempty"`
}

// Report is a line from the platform: one of its fields is set.
type Report struct {
	Ready  *Ready `json:"ready,omitempty"`
	Shown  *Shown `json:"shown,omitempty"`
	Edited *Shown `json:"edited,omitempty"`
	Typing bool   `json:"typing,omitempty"`
}

// Platform is an imitated platform. Its methods are called one at a time.
type Platform interface {
	// Post makes a person write a message; if nobody is connected, it is kept if the real platform would keep it.
	Post(p Post) error
	// Disconnect breaks every connection.
	Disconnect()
	// Close ends it.
	Close()
}

// Caller is a Platform that sends its messages to a webhook. Before it has an address it keeps the messages.
type Caller interface {
	Platform
	// Webhook sets where the plugin listens. It is called once the plugin does, so that the platform can verify the address.
	Webhook(w Webhook) error
}

// Main runs a platform as a program: start begins to listen and may report from any goroutine from then on.
func Main(start func(report func(Report)) (Ready, Platform, error)) {
	if err := Run(os.Stdin, os.Stdout, start); err != nil {
		fmt.Fprintln(os.Stderr, "fake platform:", err)
		os.Exit(1)
	}
}

// maxCommand bounds a line, in bytes.
const maxCommand = 1 << 20

// Run is Main for tests.
func Run(in io.Reader, out io.Writer, start func(report func(Report)) (Ready, Platform, error)) error {
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	report := func(r Report) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(r) // nobody reads any more: standard input ends next
	}
	mu.Lock() // the first line is ready
	ready, p, err := start(report)
	if err == nil {
		err = lines.Encode(Report{Ready: &ready})
	}
	mu.Unlock()
	if err != nil {
		return err
	}
	defer p.Close()
	return obey(in, p)
}

// obey executes commands until in ends.
func obey(in io.Reader, p Platform) error {
	commands := bufio.NewScanner(in)
	commands.Buffer(nil, maxCommand)
	for commands.Scan() {
		var c Command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if err := carryOut(p, c); err != nil {
			return err
		}
	}
	return commands.Err()
}

func carryOut(p Platform, c Command) error {
	if c.Disconnect {
		p.Disconnect()
	}
	if caller, ok := p.(Caller); ok && c.Webhook != nil {
		if err := caller.Webhook(*c.Webhook); err != nil {
			return fmt.Errorf("take the webhook %s: %w", c.Webhook.URL, err)
		}
	}
	if c.Post == nil {
		return nil
	}
	if err := p.Post(*c.Post); err != nil {
		return fmt.Errorf("post %s: %w", c.Post.ID, err)
	}
	return nil
}
