package main

import (
	"errors"
	"strings"
)

type shape interface{ sides() int }

type square struct{ side int }

func (s square) sides() int { return 4 }

type circle struct{}

func (*circle) sides() int {
	return 0
}

var errOdd = errors.New("odd")

// decide takes every way that a policy may take.
func decide(role, text string) (n int) {
	defer func() {
		if r := recover(); r != nil {
			n = -1
		}
	}()
	if role == "owner" {
		n = 1
	}
	score := 3
	if role == "member" {
		score = n*2 + 7
	} else if role == "guest" {
		score = 9
	} else {
		score = 8
	}
	switch role {
	case "owner", "admin":
		n += 2
	case "member":
		n += 3
		fallthrough
	case "guest":
		n += 4
	default:
		return score + nested(50)
	}
	words := strings.Fields(text)
outer:
	for i, w := range words {
		switch {
		case w == "skip":
			continue
		case w == "stop":
			break outer
		case strings.HasPrefix(w, "#"):
			for range 3 {
				if i > 100 {
					continue outer
				}
				n++
			}
		}
		n += weight(w)
	}
	add := func(m int) int {
		if isBig(m) {
			return m - 1
		}
		return m +
			score
	}
	if len(words) > 2 &&
		words[1] != "" {
		n = add(n)
	}
	if ok := known(words, role); ok {
		n++
	}
	for j := 0; j < len(words); j++ {
		if words[j] == "panic" {
			panic(words[j])
		}
	}
	k := 0
	for {
		k++
		if k > 3 {
			break
		}
	}
	if text == "index" {
		return len(words[len(words)])
	}
	counts := map[string]int{}
	for _, w := range words {
		counts[w] += largest(1, len(w))
	}
	for w := range letters(text) {
		if w == 'x' {
			break
		}
		n += counts[string(w)]
	}
	if err := check(n); err != nil {
		if errors.Is(err, errOdd) {
			n += sidesOf(square{2})
		}
		return n
	}
	n += sidesOf(&circle{})
	return n
}

// isBig is small enough to be inlined, and both of its answers are constants.
func isBig(n int) bool {
	if n > 40 {
		return true
	}
	return false
}

func weight(w string) int {
	if len(w) > 5 {
		return 5
	}
	return len(w)
}

func known(words []string, role string) (found bool) {
	for _, w := range words {
		if w == role {
			found = true
		}
	}
	return
}

func largest[T int | string](a, b T) T {
	if a > b {
		return a
	}
	return b
}

func letters(text string) func(func(rune) bool) {
	return func(yield func(rune) bool) {
		for _, c := range text {
			if !yield(c) {
				return
			}
		}
	}
}

func check(n int) error {
	if n%2 == 1 {
		return errOdd
	}
	return nil
}

func sidesOf(s shape) int {
	switch s := s.(type) {
	case square:
		return s.sides() + s.side
	case *circle:
		return s.sides()
	}
	return -1
}

func unused(a int) int {
	return a + 1
}

// nested makes the stack grow.
func nested(n int) int {
	room := [100]int{n}
	if n == 0 {
		return 0
	}
	return nested(room[0] - 1)
}
