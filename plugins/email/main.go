// Email connects Flynn to a mailbox: mail comes in by IMAP and goes out by SMTP.
//
// Start with channel.go, the plugin. For incoming mail sync.go follows the mailbox, mail.go parses a mail with quote.go and html.go for its
// text, results.go checks its sender, thread.go finds its conversation, and event.go combines these. For outgoing mail compose.go writes a
// mail and send.go submits it. dial.go has the connections. The position in the mailbox is stored when the host has everything before it.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
