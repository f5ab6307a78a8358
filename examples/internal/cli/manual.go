package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Manual returns the flags of all commands as Markdown tables.
func (p *Parser) Manual() string {
	var m manual
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

type manual struct{ strings.Builder }

func (m *manual) command(n *kong.Node, name string) {
	fmt.Fprintf(m, "## `%s`\n", name)
	if what, _, _ := strings.Cut(n.Help, "\n"); what != "" {
		fmt.Fprintf(m, "\n%s\n", what)
	}
	foreign, group, first := foreignFlags(n), "", true
	for _, f := range bySection(slices.DeleteFunc(slices.Clone(n.Flags), func(f *kong.Flag) bool { return f.Hidden })) {
		if title := section(f); title != group || first {
			m.table(cmp.Or(title, "Flags"), "default")
			group, first = title, false
		}
		value := ""
		if f.HasDefault && f.Default != "" {
			value = "`" + f.Default + "`"
		}
		m.row(namesOf(f, foreign), value, f.Help)
	}
	for i, f := range onlyThere(foreign) {
		if i == 0 {
			m.table("Flags of other trainers", "")
		}
		m.row([]string{"--" + strings.Join(f.Names, ", --")}, "", f.Help)
	}
	m.WriteString("\n")
}

func (m *manual) table(title, second string) {
	fmt.Fprintf(m, "\n### %s\n\n| flag | %s | what it does |\n|---|---|---|\n", title, second)
}

func (m *manual) row(names []string, value, help string) {
	text := strings.NewReplacer("|", `\|`, "<", `\<`).Replace(strings.Join(strings.Fields(help), " "))
	fmt.Fprintf(m, "| `%s` | %s | %s |\n", strings.Join(names, "`, `"), value, text)
}
