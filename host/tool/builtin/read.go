package builtin

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/tool"
)

type readArgs struct {
	Path       string `json:"path"`
	Offset     int64  `json:"offset"` // line
	Limit      int64  `json:"limit"`  // lines
	ByteOffset *int64 `json:"byte_offset"`
	ByteLimit  int64  `json:"byte_limit"`
}

const (
	readChunk = 256 << 10 // bytes of a file read at a time
	readScan  = 64 << 20  // bytes searched for the first line
	hexBytes  = 4 << 10   // bytes of a binary file shown at a time
)

func fileRead() tool.Tool {
	return function[readArgs]{
		spec: tool.Spec{
			Name:        "file.read",
			Description: "Read a text file of the workspace, from a line on or from a byte on. A long file comes in pages; the last line of a page says where to go on.",
			Effect:      tool.Read,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":{"type":"string","minLength":1,"description":"relative to the workspace"},
				"offset":{"type":"integer","minimum":1,"description":"first line; 1 if left out"},
				"limit":{"type":"integer","minimum":1,"description":"how many lines; as many as fit if left out"},
				"byte_offset":{"type":"integer","minimum":0,"description":"first byte, instead of a line; shows binary files as well"},
				"byte_limit":{"type":"integer","minimum":1,"description":"how many bytes, with byte_offset"}}}`),
		},
		rest: "Read on with offset or byte_offset.",
		run:  runRead,
	}
}

func runRead(ctx context.Context, call tool.Call, args readArgs) (tool.Result, error) {
	read := func(offset, max int64) ([]byte, int64, error) {
		return call.Machine.ReadFile(ctx, args.Path, offset, max)
	}
	var text string
	var err error
	if args.ByteOffset != nil {
		text, err = readBytes(read, *args.ByteOffset, args.ByteLimit)
	} else {
		text, err = readLines(read, max(args.Offset, 1), args.Limit)
	}
	if err != nil {
		return outcome(err)
	}
	return tool.Result{Text: text, Labels: fileLabel(args.Path)}, nil
}

// reader reads a piece of a file and returns the size of the file.
type reader func(offset, max int64) (data []byte, size int64, err error)

// readBytes shows a piece of a file as text, or as a hex dump if it is binary.
func readBytes(read reader, offset, limit int64) (string, error) {
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	data, size, err := read(offset, limit)
	if err != nil {
		return "", err
	}
	text := string(data)
	if isBinary(trimRunes(data)) {
		data = data[:min(len(data), hexBytes)]
		text = hex.Dump(data)
	}
	end := offset + int64(len(data))
	if end < size {
		return JoinLines(text, fmt.Sprintf("[bytes %d to %d of %d; go on with byte_offset %d]", offset, end, size, end)), nil
	}
	return JoinLines(text, fmt.Sprintf("[end of file at byte %d]", size)), nil
}

// readLines shows whole lines from the first one on, at most count, as many as fit on a page.
func readLines(read reader, first, count int64) (string, error) {
	skipped := int64(1) // number of the line that starts at offset
	for offset := int64(0); ; {
		data, size, err := read(offset, readChunk)
		if err != nil {
			return "", err
		}
		if offset == 0 && isBinary(trimRunes(data)) {
			return fmt.Sprintf("[binary file of %d bytes; byte_offset shows a dump of it]", size), nil
		}
		for skipped < first {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				break
			}
			data, offset, skipped = data[i+1:], offset+int64(i)+1, skipped+1
		}
		if skipped == first {
			data, size, err := read(offset, readChunk)
			return formatLines(data, first, count, offset, size), err
		}
		offset += int64(len(data))
		if offset >= size || len(data) == 0 {
			return fmt.Sprintf("[the file has fewer than %d lines]", first), nil
		}
		if offset > readScan {
			return fmt.Sprintf("[line %d lies beyond the first %d bytes; use byte_offset]", first, readScan), nil
		}
	}
}

// formatLines cuts data, which starts with line first at offset, to whole lines and says where the next page begins.
func formatLines(data []byte, first, count, offset, size int64) string {
	end, line := 0, first
	for (count <= 0 || line < first+count) && end < len(data) {
		next := len(data)
		if i := bytes.IndexByte(data[end:], '\n'); i >= 0 {
			next = end + i + 1
		}
		if next > pageSize {
			break
		}
		end, line = next, line+1
	}
	at := offset + int64(end)
	switch {
	case at >= size:
		return string(data[:end])
	case end == 0:
		return fmt.Sprintf("[line %d is longer than a page; read it with byte_offset %d]", first, offset)
	}
	return JoinLines(string(data[:end]), fmt.Sprintf("[lines %d to %d; byte %d of %d; go on with offset %d]", first, line-1, at, size, line))
}

// isBinary reports whether data is not text.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data)
}

// trimRunes removes incomplete runes at both ends.
func trimRunes(data []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
		data = data[1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		tail := data[len(data)-i:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return data[:len(data)-i]
			}
			return data
		}
	}
	return data
}
