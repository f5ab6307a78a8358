package main

import (
	"fmt"
	"regexp"
	"strings"
)

// maxExceptions limits the list of unbound functions, so that it does not become a list of omissions.
const maxExceptions = 40

// An exception is a C name without a Go symbol, and the reason. A name that ends with … stands for all values
// with that prefix.
type exception struct{ name, reason string }

// parseExceptions reads lines "name: reason"; # starts a comment.
func parseExceptions(text string) ([]exception, error) {
	var list []exception
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, _ := strings.Cut(line, ":")
		reason = strings.TrimSpace(reason)
		switch {
		case reason == "":
			return nil, fmt.Errorf("exceptions.txt:%d: %s has no reason; write \"name: reason\"", number, name)
		case seen[name]:
			return nil, fmt.Errorf("exceptions.txt:%d: %s is there twice", number, name)
		}
		seen[name] = true
		list = append(list, exception{name, reason})
	}
	return list, nil
}

// A report is the result of a comparison.
type report struct {
	total, bound, excepted int
	missing                []function
	missingValues          []value
	problems               []string // wrong claims and stale exceptions
}

func (r *report) failed() bool {
	return len(r.missing)+len(r.missingValues)+len(r.problems) > 0
}

func (r *report) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func compare(c *cAPI, b *binding, exceptions []exception) *report {
	r := &report{total: len(c.functions)}
	claimed := r.resolve(c, b.claims)
	excepted := r.checkExceptions(c, b, claimed, exceptions)
	for _, f := range c.functions {
		switch {
		case claimed[f.name] != "":
			r.bound++
		case excepted[f.name]:
			r.excepted++
		default:
			r.missing = append(r.missing, f)
		}
	}
	for _, v := range c.values {
		if !b.used[v.name] && claimed[v.name] == "" && claimed[opOf(v)] == "" && !excepted[v.name] {
			r.missingValues = append(r.missingValues, v)
		}
	}
	return r
}

// opOf returns the function that builds the op of an enumeration value: ggml_gelu for GGML_UNARY_OP_GELU.
func opOf(v value) string {
	for _, prefix := range []string{"GGML_UNARY_OP_", "GGML_GLU_OP_"} {
		if op, ok := strings.CutPrefix(v.name, prefix); ok {
			return "ggml_" + strings.ToLower(op)
		}
	}
	return ""
}

// Comments wrap at any space.
var (
	cName = regexp.MustCompile(`\b(?:ggml|gguf|GGML|GGUF)_\w*(?:…|\*)?`)
	forms = regexp.MustCompile(`\b(\w+)\s+and\s+its\s+(\d)d\s+to\s+(\d)d\s+forms`)
	until = regexp.MustCompile(`\b((?:ggml|gguf)_\w+)\s+to\s+((?:ggml|gguf)_\w+)`)
)

// resolve returns the C names of the claims, each with a symbol that claims it; it reports names that do not
// exist.
func (r *report) resolve(c *cAPI, claims []claim) map[string]string {
	claimed := map[string]string{}
	for _, cl := range claims {
		if !cName.MatchString(cl.text) {
			continue
		}
		for _, m := range forms.FindAllStringSubmatch(cl.text, -1) {
			for d := m[2][0]; d <= m[3][0]; d++ {
				r.accept(c, claimed, cl.symbol, m[1]+"_"+string(d)+"d")
			}
		}
		for _, m := range until.FindAllStringSubmatch(cl.text, -1) {
			r.acceptRange(c, claimed, cl.symbol, m[1], m[2])
		}
		for _, name := range cName.FindAllString(cl.text, -1) {
			r.accept(c, claimed, cl.symbol, name)
		}
	}
	return claimed
}

func (r *report) accept(c *cAPI, claimed map[string]string, symbol, name string) {
	prefix := strings.TrimRight(name, "…*")
	if prefix != name {
		if !r.acceptPrefix(c, claimed, symbol, prefix) {
			r.problem("%s claims %s, and nothing in the headers begins so", symbol, name)
		}
		return
	}
	// A function of a plugin has only a type in the headers.
	if !c.known[name] && !c.known[name+"_t"] {
		r.problem("%s claims %s, which is not in the headers", symbol, name)
		return
	}
	claimed[name] = symbol
}

func (r *report) acceptPrefix(c *cAPI, claimed map[string]string, symbol, prefix string) bool {
	found := false
	for name := range c.known {
		if strings.HasPrefix(name, prefix) && name != prefix {
			claimed[name], found = symbol, true
		}
	}
	return found
}

// acceptRange accepts the functions from first to last, in the order of their header.
func (r *report) acceptRange(c *cAPI, claimed map[string]string, symbol, first, last string) {
	from, ok1 := c.at[first]
	to, ok2 := c.at[last]
	if !ok1 || !ok2 || from > to || c.functions[from].header != c.functions[to].header {
		r.problem("%s claims %s to %s, which is not a range of functions of a header", symbol, first, last)
		return
	}
	for _, f := range c.functions[from : to+1] {
		claimed[f.name] = symbol
	}
}

var goSymbol = regexp.MustCompile("`([^`]+)`")

// checkExceptions returns the excepted names; it reports errors in the list.
func (r *report) checkExceptions(c *cAPI, b *binding, claimed map[string]string, exceptions []exception) map[string]bool {
	excepted := map[string]bool{}
	functions := 0
	for _, e := range exceptions {
		names := c.excepts(e.name)
		for _, name := range names {
			excepted[name] = true
		}
		if _, ok := c.at[e.name]; ok {
			functions++
		} else if len(names) == 0 {
			r.problem("exceptions.txt: %s is not in the headers", e.name)
		}
		if symbol := claimed[e.name]; symbol != "" {
			r.problem("exceptions.txt: %s is bound by %s; remove it", e.name, symbol)
		}
		for _, m := range goSymbol.FindAllStringSubmatch(e.reason, -1) {
			if !b.symbols[m[1]] {
				r.problem("exceptions.txt: %s: there is no Go symbol %s", e.name, m[1])
			}
		}
		if strings.HasPrefix(e.reason, "deprecated") && !c.deprecates(e.name) {
			r.problem("exceptions.txt: %s is not marked as deprecated in the headers", e.name)
		}
	}
	if functions > maxExceptions {
		r.problem("exceptions.txt: there are %d functions; at most %d may be there", functions, maxExceptions)
	}
	return excepted
}

// excepts returns the names that an exception stands for.
func (c *cAPI) excepts(name string) []string {
	if _, ok := c.at[name]; ok {
		return []string{name}
	}
	prefix, isPrefix := strings.CutSuffix(name, "…")
	var names []string
	for _, v := range c.values {
		if v.name == name || isPrefix && strings.HasPrefix(v.name, prefix) {
			names = append(names, v.name)
		}
	}
	return names
}

func (c *cAPI) deprecates(name string) bool {
	i, ok := c.at[name]
	return ok && c.functions[i].deprecated
}

// String lists the problems by header, with counts.
func (r *report) String() string {
	var b strings.Builder
	group(&b, "not bound", r.missing, func(f function) (string, string) {
		if f.deprecated {
			return f.header, f.name + " (deprecated)"
		}
		return f.header, f.name
	})
	group(&b, "values not bound", r.missingValues, func(v value) (string, string) { return v.enum, v.name })
	for _, p := range r.problems {
		fmt.Fprintln(&b, p)
	}
	fmt.Fprintf(&b, "apicheck: %d functions: %d bound, %d excepted, %d missing; %d values missing; %d other problems\n",
		r.total, r.bound, r.excepted, len(r.missing), len(r.missingValues), len(r.problems))
	return b.String()
}

// group prints items below the places that they come from.
func group[T any](b *strings.Builder, title string, items []T, split func(T) (place, name string)) {
	var places []string
	names := map[string][]string{}
	for _, item := range items {
		place, name := split(item)
		if names[place] == nil {
			places = append(places, place)
		}
		names[place] = append(names[place], name)
	}
	for _, place := range places {
		fmt.Fprintf(b, "%s: %d %s:\n", place, len(names[place]), title)
		for _, name := range names[place] {
			fmt.Fprintf(b, "\t%s\n", name)
		}
	}
}
