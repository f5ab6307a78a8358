package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// synonyms lists common names of a format's keys. The key itself comes first.
var synonyms = []struct {
	format Format
	names  map[string][]string
	more   map[string][]string // of optional keys
}{
	{Instructions, map[string][]string{"instruction": {"instruction"}, "output": {"output", "response", "answer", "completion"}}, map[string][]string{"input": {"input", "context"}}},
	{Completion, map[string][]string{"prompt": {"prompt", "question", "query", "input"}, "completion": {"completion", "response", "answer", "output"}}, nil},
	{ShareGPT, map[string][]string{"conversations": {"conversations", "conversation"}}, nil},
}

// sayName is the remedy for a missing key.
const sayName = "add it, or name the key that has it"

// format returns the format of a record by its keys: the given or standard names, or else synonyms.
func (r *record) format() (Format, *fault) {
	switch {
	case r.p.pairs:
		return r.pairFormat()
	case r.p.labels:
		return r.labelledFormat()
	}
	if f := r.preferences(); f != nil {
		return "", f
	}
	return r.formatByKeys()
}

// formatByKeys returns the format of a record without pairs.
func (r *record) formatByKeys() (Format, *fault) {
	for _, candidate := range formats {
		if r.missing(candidate.keys) == "" {
			return candidate.format, nil
		}
	}
	for _, s := range synonyms {
		p, f := r.renamed(s.names, s.more)
		if f != nil {
			return "", f
		}
		if p != nil {
			r.p = p
			return s.format, nil
		}
	}
	return "", r.unknownFormat()
}

// missing returns the first key that the record lacks; "" if none.
func (r *record) missing(keys []string) string {
	for _, key := range keys {
		if _, ok := r.get(key); !ok {
			return key
		}
	}
	return ""
}

// renamed returns the parser with the record's names of keys; nil if one is missing.
func (r *record) renamed(names, more map[string][]string) (*parser, *fault) {
	p := *r.p
	p.names, p.known = maps.Clone(p.names), maps.Clone(p.known)
	for _, key := range slices.Sorted(maps.Keys(names)) {
		name, f := r.find(key, names[key])
		if f != nil || name == "" {
			return nil, f
		}
		p.names[key], p.known[name] = name, key
	}
	for _, key := range slices.Sorted(maps.Keys(more)) {
		name, f := r.find(key, more[key])
		if f != nil {
			return nil, f
		}
		if name != "" {
			p.names[key], p.known[name] = name, key
		}
	}
	return &p, nil
}

// find returns the record's name of a key; "" if it is absent.
func (r *record) find(key string, names []string) (string, *fault) {
	if _, ok := r.get(key); ok {
		return r.p.name(key), nil
	}
	if r.p.name(key) != key { // set by the caller
		return "", nil
	}
	var found []string
	for _, m := range r.members {
		if slices.Contains(names, m.key) && r.p.known[m.key] == "" {
			found = append(found, m.key)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", faultf(Contradiction, "name one of them", "%q and %q can both be the %s", found[0], found[1], key).by("Keys", key, found[0])
}

// preferences returns a fault for pairs of a better and a worse answer, unless the caller has named the key to train.
func (r *record) preferences() *fault {
	if !r.isPair() {
		return nil
	}
	key := "completion"
	if chosen, _ := r.get("chosen"); chosen[0] == '[' {
		key = "messages"
	}
	return faultf(Preferences, "choose a loss that compares answers, or name the key to imitate",
		"the record has two answers, %q and %q, and cross-entropy imitates one", r.p.name("chosen"), r.p.name("rejected")).by("Keys", key, "chosen")
}

// unknownFormat returns a fault that lists the missing keys.
func (r *record) unknownFormat() *fault {
	if len(r.members) == 0 {
		return faultf(Empty, "remove the record", "the record has no keys")
	}
	var wanted, found []string
	for _, candidate := range formats {
		wanted = append(wanted, r.p.name(candidate.keys[0]))
		missing := r.missing(candidate.keys)
		for _, key := range candidate.keys {
			if _, has := r.get(key); has {
				return faultf(MissingKey, sayName, "the record has %q, but %q is missing", r.p.name(key), r.p.name(missing)).by("Keys", missing, r.other(candidate.keys))
			}
		}
	}
	for _, m := range r.members {
		found = append(found, fmt.Sprintf("%q", m.key))
	}
	if len(found) > 8 {
		found = append(found[:8], "…")
	}
	return faultf(MissingKey, "name the key to use instead", "the record has none of the keys %s; it has %s", strings.Join(wanted, ", "), strings.Join(found, ", ")).by("Keys", "", "")
}

// other returns the record's only other key with a text; "" if there is not exactly one.
func (r *record) other(keys []string) string {
	var names []string
	for _, m := range r.members {
		isKey := slices.ContainsFunc(keys, func(key string) bool { return r.p.name(key) == m.key })
		if m.value[0] == '"' && !isKey && r.p.known[m.key] == "" {
			names = append(names, m.key)
		}
	}
	return only(names)
}

// only returns the single element of a list; "" if there is not exactly one.
func only(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return ""
}
