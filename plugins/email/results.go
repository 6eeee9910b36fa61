package main

import (
	"errors"
	"strings"
)

// results is one Authentication-Results header (RFC 8601): a server's findings about the origin of a mail.
type results struct {
	server string // the authserv-id
	found  []result
}

// result is the result of one method.
type result struct {
	method, value string            // "dkim", "pass"; lower case
	properties    map[string]string // "header.d": "example.org"; lower case
}

var errResults = errors.New("malformed Authentication-Results")

// maxResults bounds the methods of one header.
const maxResults = 64

// parseResults parses a header strictly: what it does not understand proves nothing.
func parseResults(header string) (results, error) {
	parts, err := tokens(header)
	if err != nil || len(parts) == 0 || len(parts) > maxResults || len(parts[0]) == 0 {
		return results{}, errResults
	}
	out := results{server: parts[0][0]}
	for _, part := range parts[1:] {
		if len(part) == 0 || len(part) == 1 && strings.EqualFold(part[0], "none") {
			continue
		}
		method, value, ok := strings.Cut(part[0], "=")
		if !ok || method == "" || value == "" {
			return results{}, errResults
		}
		method, _, _ = strings.Cut(method, "/") // the version
		r := result{strings.ToLower(method), strings.ToLower(value), map[string]string{}}
		for _, property := range part[1:] {
			key, value, ok := strings.Cut(property, "=")
			key = strings.ToLower(key)
			if _, twice := r.properties[key]; !ok || twice {
				return results{}, errResults
			}
			r.properties[key] = strings.ToLower(value)
		}
		out.found = append(out.found, r)
	}
	return out, nil
}

// tokens cuts a header at semicolons, and each piece at white space; comments and quotes are taken away, and so is space around "=".
func tokens(header string) ([][]string, error) {
	var all [][]string
	var piece []string
	var word strings.Builder
	var begun bool // word holds something, be it an empty quotation
	var joins bool // the next word continues this one, because it follows "="
	end := func() {
		if begun && !joins {
			piece = append(piece, word.String())
			word.Reset()
			begun = false
		}
	}
	for i := 0; i < len(header); i++ {
		switch c := header[i]; c {
		case '(':
			n := comment(header[i:])
			if n == 0 {
				return nil, errResults
			}
			i += n - 1
			end()
		case '"':
			text, n := quoted(header[i:])
			if n == 0 {
				return nil, errResults
			}
			word.WriteString(text)
			begun, joins = true, false
			i += n - 1
		case ';':
			joins = false
			end()
			all, piece = append(all, piece), nil
		case ' ', '\t', '\r', '\n':
			end()
		case '=':
			if !begun { // "key =": it belongs to the word before
				if len(piece) == 0 {
					return nil, errResults
				}
				word.WriteString(piece[len(piece)-1])
				piece = piece[:len(piece)-1]
			}
			word.WriteByte(c)
			begun, joins = true, true
		default:
			if c < ' ' || c == 0x7f {
				return nil, errResults
			}
			word.WriteByte(c)
			begun, joins = true, false
		}
	}
	joins = false
	end()
	return append(all, piece), nil
}

// comment returns the length of the comment at the beginning of s, with those within it; 0 when it does not end.
func comment(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// quoted returns the text of the quotation at the beginning of s, and its length; 0 when it does not end.
func quoted(s string) (text string, length int) {
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) {
				out.WriteByte(s[i])
			}
		case '"':
			return out.String(), i + 1
		default:
			out.WriteByte(s[i])
		}
	}
	return "", 0
}

// vouched reports whether the receiving server confirms that a mail comes from the domain of its From address. Only the topmost header of
// that server counts: it puts its own on top, and those below may have come with the mail.
func vouched(headers []string, server, from string) bool {
	for _, header := range headers {
		r, err := parseResults(header)
		if err != nil {
			return false
		}
		if strings.EqualFold(r.server, server) {
			return r.aligned(domain(from))
		}
	}
	return false
}

// aligned reports whether DMARC passed for the domain, or SPF or DKIM did for it or a domain above it. A DMARC that did not pass outweighs them.
func (r results) aligned(from string) bool {
	passed := false
	for _, one := range r.found {
		pass := one.value == "pass"
		switch one.method {
		case "dmarc":
			if !pass && one.value != "none" {
				return false
			}
			passed = passed || pass && one.properties["header.from"] == from
		case "dkim":
			signer := one.properties["header.d"]
			if signer == "" {
				_, signer, _ = strings.Cut(one.properties["header.i"], "@")
			}
			passed = passed || pass && above(signer, from)
		case "spf":
			sender := one.properties["smtp.mailfrom"]
			if i := strings.LastIndexByte(sender, '@'); i >= 0 {
				sender = sender[i+1:]
			}
			passed = passed || pass && above(sender, from)
		}
	}
	return passed
}

// above reports whether a domain is the other one or contains it. A single label contains nothing: "org" proves nothing about its
// subdomains.
func above(domain, of string) bool {
	return domain != "" && (domain == of || strings.Contains(domain, ".") && strings.HasSuffix(of, "."+domain))
}
