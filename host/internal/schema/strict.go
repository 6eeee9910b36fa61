package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// strict refuses JSON that readers could understand in different ways, or that would be expensive to process.
func strict(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := strictValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the schema")
	}
	return nil
}

// strictValue reads one value.
func strictValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Number:
		return modest(string(t))
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("it is nested more than %d deep", maxDepth)
		}
		return strictMembers(d, t == '{', depth+1)
	}
	return nil
}

// strictMembers reads the members of an object or a list, and its end.
func strictMembers(d *json.Decoder, object bool, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		if object {
			t, err := d.Token()
			if err != nil {
				return err
			}
			key := t.(string)
			if seen[key] {
				return fmt.Errorf("the key %.80q is there twice", key)
			}
			seen[key] = true
		}
		if err := strictValue(d, depth); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// Bounds on a number. The library keeps numbers as fractions of integers, in which 1e999999999 fills the memory.
const (
	maxDigits   = 100
	maxExponent = 400
)

func modest(number string) error {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	if e, err := strconv.Atoi(exponent); len(number) > maxDigits || exponent != "" && (err != nil || e < -maxExponent || e > maxExponent) {
		return fmt.Errorf("the number %.40s is too large or too exact", number)
	}
	return nil
}
