package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Manual returns the flags of all commands as Markdown tables. A table that an earlier command has too is a reference
// to it.
func (p *Parser) Manual() string {
	m := manual{told: map[string]string{}}
	if len(p.Model.Children) == 0 {
		m.command(p.Model.Node, p.Model.Name)
	}
	for _, c := range p.Model.Children {
		if !c.Hidden {
			m.command(c, p.Model.Name+" "+c.Name)
		}
	}
	return m.String()
}

type manual struct {
	strings.Builder
	told map[string]string // the command that has a table first
}

func (m *manual) command(n *kong.Node, name string) {
	fmt.Fprintf(m, "## `%s`\n", name)
	if what, _, _ := strings.Cut(n.Help, "\n"); what != "" {
		fmt.Fprintf(m, "\n%s\n", what)
	}
	titles, tables := flagTables(n)
	var before []string // commands that have tables of this one
	same := map[string][]string{}
	for i, text := range tables {
		if of, known := m.told[text]; known {
			if same[of] == nil {
				before = append(before, of)
			}
			same[of] = append(same[of], titles[i])
		}
	}
	for _, of := range before {
		fmt.Fprintf(m, "\nAs for [%s](#%s): %s.\n", of, strings.ReplaceAll(of, " ", "-"), strings.Join(same[of], ", "))
	}
	for i, text := range tables {
		if _, known := m.told[text]; !known {
			m.told[text] = name
			fmt.Fprintf(m, "\n### %s\n\n%s", titles[i], text)
		}
	}
	m.WriteString("\n")
}

// flagTables returns a table for each section of a command's flags.
func flagTables(n *kong.Node) (titles, tables []string) {
	begin := func(title, second string) {
		titles = append(titles, title)
		tables = append(tables, fmt.Sprintf("| flag | %s | what it does |\n|---|---|---|\n", second))
	}
	foreign := foreignFlags(n)
	for i, f := range bySection(slices.DeleteFunc(slices.Clone(n.Flags), func(f *kong.Flag) bool { return f.Hidden })) {
		if title := cmp.Or(section(f), "Flags"); i == 0 || title != titles[len(titles)-1] {
			begin(title, "default")
		}
		value := ""
		if f.HasDefault && f.Default != "" {
			value = "`" + f.Default + "`"
		}
		tables[len(tables)-1] += row(namesOf(f, foreign), value, f.Help)
	}
	for i, f := range onlyThere(foreign) {
		if i == 0 {
			begin("Flags of other trainers", "")
		}
		tables[len(tables)-1] += row([]string{"--" + strings.Join(f.Names, ", --")}, "", f.Help)
	}
	return titles, tables
}

func row(names []string, value, help string) string {
	text := strings.NewReplacer("|", `\|`, "<", `\<`).Replace(strings.Join(strings.Fields(help), " "))
	return fmt.Sprintf("| `%s` | %s | %s |\n", strings.Join(names, "`, `"), value, text)
}
