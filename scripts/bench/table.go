package main

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
)

// A key is a part of benchmarks' names, and its heading in a table.
type key struct{ name, head string }

// A table has a row for each set of values of some keys.
type table struct {
	from    []string // benchmarks
	where   where
	named   string // heading of a column with the benchmark's name; "" for none
	rows    []key
	columns []column
}

// A column shows a metric of those results of a row that match where.
type column struct {
	head   string
	unit   string
	where  where
	format string
	over   *column // column of the divisor
}

// A row has the labels that its results share.
type row struct {
	bench string
	keys  where
}

func (t table) render(_ string, s *resultSet) (string, error) {
	rows := t.list(s)
	keys := t.usedKeys(rows)
	columns := t.usedColumns(s, rows)
	if len(rows) == 0 || len(columns) == 0 {
		return "", nil
	}
	var b strings.Builder
	t.head(&b, keys, columns)
	for _, r := range rows {
		var cells []string
		if t.named != "" {
			cells = append(cells, r.bench)
		}
		for _, k := range keys {
			cells = append(cells, cmp.Or(r.keys[k.name], "–"))
		}
		for _, c := range columns {
			cells = append(cells, c.cell(s, r))
		}
		writeRow(&b, cells)
	}
	return b.String(), nil
}

func (t table) head(b *strings.Builder, keys []key, columns []column) {
	var heads, marks []string
	if t.named != "" {
		heads = append(heads, t.named)
	}
	for _, k := range keys {
		heads = append(heads, k.head)
	}
	for range heads {
		marks = append(marks, "---")
	}
	for _, c := range columns {
		heads = append(heads, c.head)
		marks = append(marks, "---:")
	}
	writeRow(b, heads)
	writeRow(b, marks)
}

func writeRow(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// list returns the rows in the order of their first results.
func (t table) list(s *resultSet) []row {
	var rows []row
	seen := map[string]bool{}
	for _, r := range s.results {
		if !t.takes(&r) {
			continue
		}
		keys := where{}
		for _, k := range t.rows {
			keys[k.name] = r.keys[k.name]
		}
		id := fmt.Sprint(r.bench, keys)
		if !seen[id] {
			seen[id] = true
			rows = append(rows, row{r.bench, keys})
		}
	}
	return rows
}

func (t table) takes(r *result) bool {
	for _, bench := range t.from {
		if r.matches(bench, t.where) {
			return true
		}
	}
	return false
}

// usedKeys removes keys that no row has.
func (t table) usedKeys(rows []row) []key {
	var used []key
	for _, k := range t.rows {
		for _, r := range rows {
			if r.keys[k.name] != "" {
				used = append(used, k)
				break
			}
		}
	}
	return used
}

// usedColumns removes columns without values.
func (t table) usedColumns(s *resultSet, rows []row) []column {
	var used []column
	for _, c := range t.columns {
		for _, r := range rows {
			if _, ok := c.value(s, r); ok {
				used = append(used, c)
				break
			}
		}
	}
	return used
}

func (c column) cell(s *resultSet, r row) string {
	if v, ok := c.value(s, r); ok {
		return fmt.Sprintf(c.format, v)
	}
	return "–"
}

func (c column) value(s *resultSet, r row) (float64, bool) {
	all := maps.Clone(r.keys)
	maps.Copy(all, c.where)
	v, ok := s.median(r.bench, all, c.unit)
	if !ok || c.over == nil {
		return v, ok
	}
	base, ok := c.over.value(s, r)
	return v / base, ok
}
