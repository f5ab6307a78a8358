package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the maximum width of a line of help.
const helpWidth = 80

// help prints the help of a command. If the command has many flags, it shows the basic ones, unless all are
// requested.
func (p *Parser) help(_ kong.HelpOptions, ctx *kong.Context) error {
	h := &helpText{program: p.Model.Name, all: p.all}
	node := ctx.Selected()
	if node == nil {
		h.app(p.Model.Node)
	} else {
		h.command(node)
	}
	io.WriteString(p.Stdout, h.text.String()) // exit reports a failure
	return nil
}

type helpText struct {
	program string
	all     bool
	text    strings.Builder
}

func (h *helpText) line(format string, args ...any) {
	h.text.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (h *helpText) app(app *kong.Node) {
	if len(app.Children) == 0 {
		h.line("Usage: %s%s", h.program, required(app))
		h.paragraphs(app.Help)
		h.flags(app, h.program)
		return
	}
	h.line("Usage: %s <command> [flags]", h.program)
	h.paragraphs(app.Help)
	h.line("\nCommands")
	for _, c := range app.Children {
		if !c.Hidden {
			h.line("  %s %s%s", h.program, c.Name, required(c))
			h.wrap("        ", c.Help)
		}
	}
	if app.DefaultCmd != nil {
		h.line("\nThe flags of %s, which is the command when none is named:", app.DefaultCmd.Name)
		h.flags(app.DefaultCmd, h.program)
	}
	h.line("%s COMMAND --help shows the flags of a command; %s --version shows the versions and devices it found.", h.program, h.program)
}

func (h *helpText) command(c *kong.Node) {
	name := h.program + " " + c.Name
	h.line("Usage: %s%s", name, required(c))
	h.paragraphs(c.Help)
	h.flags(c, name)
}

// required returns the shortest command line that a command accepts.
func required(n *kong.Node) string {
	text := ""
	for _, f := range n.Flags {
		if f.Required {
			text += fmt.Sprintf(" --%s=%s", f.Name, f.FormatPlaceHolder())
		}
	}
	for _, p := range n.Positional {
		text += " " + p.Summary()
	}
	return text + " [flags]"
}

func isBasic(f *kong.Flag) bool { return f.Tag.Has("basic") }

// flags lists the flags of a command by their groups.
func (h *helpText) flags(n *kong.Node, name string) {
	flags := slices.DeleteFunc(slices.Clone(n.Flags), func(f *kong.Flag) bool { return f.Hidden })
	total := len(flags)
	short := !h.all && slices.ContainsFunc(flags, isBasic)
	if short {
		flags = slices.DeleteFunc(flags, func(f *kong.Flag) bool { return !isBasic(f) && !f.Required })
	}
	foreign := foreignFlags(n)
	group := ""
	for i, f := range bySection(flags) {
		if title := section(f); title != group || i == 0 {
			group = title
			h.line("\n%s", cmp.Or(group, "Flags"))
		}
		h.flag(f, foreign)
	}
	if h.all {
		h.foreign(foreign)
	}
	h.line("")
	if short {
		h.line("%s --help-all lists all of its %d flags.", name, total)
	}
}

// namesOf returns all names of a flag, with dashes.
func namesOf(f *kong.Flag, foreign []Foreign) (names []string) {
	if f.Short != 0 {
		names = append(names, "-"+string(f.Short))
	}
	negation := ""
	if f.Tag.Negatable != "" {
		negation = "[no-]"
	}
	names = append(names, "--"+negation+f.Name)
	for _, alias := range f.Aliases {
		names = append(names, "--"+alias)
	}
	for _, other := range foreign {
		for _, name := range other.Names {
			if other.Flag == f.Name && !strings.Contains(name, ".") {
				names = append(names, "--"+name)
			}
		}
	}
	return names
}

// flag shows a flag by all of its names.
func (h *helpText) flag(f *kong.Flag, foreign []Foreign) {
	text := strings.Join(namesOf(f, foreign), ", ")
	if !f.IsBool() {
		text += "=" + f.FormatPlaceHolder()
	}
	h.wrap("  ", text)
	h.wrap("        ", f.Help)
}

// onlyThere returns the foreign flags that have no counterpart here.
func onlyThere(list []Foreign) []Foreign {
	return slices.DeleteFunc(slices.Clone(list), func(f Foreign) bool { return f.Flag != "" || f.Help == "" })
}

// foreign lists foreign flags without a counterpart.
func (h *helpText) foreign(list []Foreign) {
	for i, f := range onlyThere(list) {
		if i == 0 {
			h.line("\nFlags of other trainers")
		}
		h.wrap("  ", "--"+strings.Join(f.Names, ", --"))
		h.wrap("        ", f.Help)
	}
}

// paragraphs wraps text, but keeps the lines of example commands.
func (h *helpText) paragraphs(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		h.line("")
		if strings.HasPrefix(paragraph, "Example") || strings.HasPrefix(paragraph, " ") {
			h.line("%s", paragraph)
		} else {
			h.wrap("", paragraph)
		}
	}
}

// wrap breaks text into lines, each with an indent.
func (h *helpText) wrap(indent, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(indent+line+" "+word)) > helpWidth {
			h.line("%s%s", indent, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	h.line("%s%s", indent, line)
}
