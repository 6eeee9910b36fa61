package edit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/flynnhost/flynn/host/config"
)

// Carry makes in a text the change that leads from one shared part of a configuration to another, key by key. The text may say something
// else where the parts are the same.
func (t *Text) Carry(before, after config.SharedPart) error {
	return t.carry(nil, before.Values, after.Values)
}

func (t *Text) carry(at []string, before, after map[string]any) error {
	names := map[string]any{}
	maps.Copy(names, before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		if had == has && reflect.DeepEqual(was, is) {
			continue
		}
		if err := t.carryKey(append(slices.Clip(at), name), was, is, has); err != nil {
			return err
		}
	}
	return nil
}

// carryKey changes one key from a value to another, or removes it.
func (t *Text) carryKey(key []string, was, is any, has bool) error {
	now, there := t.Get(key...)
	if !has {
		if !there {
			return nil
		}
		return t.Remove(key...)
	}
	switch is := is.(type) {
	case map[string]any:
		if table, ok := now.(map[string]any); ok && there {
			if was, ok := was.(map[string]any); ok {
				return t.carry(key, was, is)
			}
			return t.carry(key, table, is)
		}
		if there {
			if err := t.Remove(key...); err != nil {
				return err
			}
		}
		return t.addTable(key, is)
	case []map[string]any:
		return t.carryList(key, was, is)
	}
	if err := unmarked(key, is); err != nil {
		return err
	}
	switch now.(type) {
	case map[string]any, []map[string]any:
		if err := t.Remove(key...); err != nil {
			return err
		}
	}
	return t.Set(writable(is), key...)
}

// unmarked returns an error for a value with a mark in the place of a secret.
func unmarked(key []string, value any) error {
	switch v := value.(type) {
	case string:
		if config.HasMark(v) {
			return fmt.Errorf("%s looks like a secret, which is not sent to other hosts: set it on this one", config.KeyString(key...))
		}
	case []any:
		for _, inner := range v {
			if err := unmarked(key, inner); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, inner := range v {
			if err := unmarked(append(slices.Clip(key), name), inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// carryList changes a list of tables, element by element.
func (t *Text) carryList(key []string, was any, is []map[string]any) error {
	now, there := t.Get(key...)
	have, tables := now.([]map[string]any)
	if there && !tables {
		if err := t.Remove(key...); err != nil {
			return err
		}
	}
	before, ok := was.([]map[string]any)
	if !ok {
		before = have
	}
	for i := range is {
		at := append(slices.Clip(key), element(i))
		var err error
		switch {
		case i >= len(have):
			err = t.appendTable(key, at, is[i])
		case i < len(before):
			err = t.carry(at, before[i], is[i])
		default:
			err = t.carry(at, have[i], is[i])
		}
		if err != nil {
			return err
		}
	}
	for i := len(have) - 1; i >= len(is); i-- {
		if err := t.Remove(append(slices.Clip(key), element(i))...); err != nil {
			return err
		}
	}
	return nil
}

// addTable adds a table with those in it as tables of their own.
func (t *Text) addTable(key []string, table map[string]any) error {
	if err := unmarked(key, table); err != nil {
		return err
	}
	plain, inner := apart(table)
	if len(plain) > 0 || len(inner) == 0 {
		if err := t.Set(plain, key...); err != nil {
			return err
		}
	}
	return t.carry(key, nil, inner)
}

func (t *Text) appendTable(key, at []string, table map[string]any) error {
	if err := unmarked(at, table); err != nil {
		return err
	}
	plain, inner := apart(table)
	if err := t.Append(plain, key...); err != nil {
		return err
	}
	return t.carry(at, nil, inner)
}

// apart divides a table into its values and the tables in it.
func apart(table map[string]any) (plain Table, inner map[string]any) {
	plain, inner = Table{}, map[string]any{}
	for name, value := range table {
		switch value.(type) {
		case map[string]any, []map[string]any:
			inner[name] = value
		default:
			plain[name] = writable(value)
		}
	}
	return plain, inner
}

// writable is a decoded value as Set takes it.
func writable(value any) any {
	switch v := value.(type) {
	case map[string]any:
		table := Table{}
		for name, inner := range v {
			table[name] = writable(inner)
		}
		return table
	case []map[string]any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = writable(inner)
		}
		return list
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			list[i] = writable(inner)
		}
		return list
	}
	return value
}
