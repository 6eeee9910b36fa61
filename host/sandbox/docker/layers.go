package docker

import "fmt"

// layers summarises the progress of a pull's layers in a few lines for people.
type layers struct {
	all  map[string]layer
	told string
}

type layer struct {
	done, total int64
	there       bool
}

// maxLayers is more than any engine accepts in an image.
const maxLayers = 1024

// see records an event and returns a line to show, or "".
func (l *layers) see(e pullEvent) string {
	if e.ID == "" {
		return e.Status
	}
	if l.all == nil {
		l.all = make(map[string]layer)
	}
	one, known := l.all[e.ID]
	if !known && len(l.all) >= maxLayers {
		return ""
	}
	switch e.Status {
	case "Pulling fs layer", "Waiting":
	case "Downloading":
		one.done, one.total = e.ProgressDetail.Current, max(e.ProgressDetail.Total, e.ProgressDetail.Current)
	case "Verifying Checksum", "Download complete", "Extracting":
		one.done = one.total
	case "Pull complete", "Already exists":
		one.done, one.there = one.total, true
	default:
		return "" // "Pulling from library/debian", whose id is the tag
	}
	l.all[e.ID] = one
	return l.line()
}

func (l *layers) line() string {
	there, done, total := 0, int64(0), int64(0)
	for _, one := range l.all {
		if one.there {
			there++
		}
		done, total = done+one.done, total+one.total
	}
	text := fmt.Sprintf("%d of %d layers", there, len(l.all))
	if total > 0 {
		text += fmt.Sprintf(", %d of %d MiB", done>>20, (total+1<<20-1)>>20)
	}
	if text == l.told {
		return ""
	}
	l.told = text
	return text
}
