// Email connects Flynn to a mailbox: mail comes in by IMAP and goes out by SMTP.
//
// Start with channel.go, the plugin. On the way in sync.go follows the mailbox, mail.go reads a mail with quote.go and html.go for its text,
// results.go checks its sender, thread.go finds its conversation, event.go puts that together. On the way out compose.go
// writes a mail and send.go hands it in. dial.go has the connections. How far the mailbox was read is remembered when the host has
// everything before that.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
