package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the longest line of a help.
const helpWidth = 80

// help prints the help of a command: of many flags the basic ones, unless all are asked for.
func (p *Parser) help(_ kong.HelpOptions, ctx *kong.Context) error {
	h := &helpText{program: p.Model.Name, all: p.all}
	node := ctx.Selected()
	if node == nil {
		h.app(p.Model.Node)
	} else {
		h.command(node)
	}
	io.WriteString(p.Stdout, h.text.String()) // exit says what fails of it
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
	h.line("%s COMMAND --help shows the flags of a command, %s --version what was found.", h.program, h.program)
}

func (h *helpText) command(c *kong.Node) {
	name := h.program + " " + c.Name
	h.line("Usage: %s%s", name, required(c))
	h.paragraphs(c.Help)
	h.flags(c, name)
}

// required is how a command is called at least.
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

// flags lists those of a command by their groups.
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

// flag shows a flag by all of its names.
func (h *helpText) flag(f *kong.Flag, foreign []Foreign) {
	names := append([]string{f.Name}, f.Aliases...)
	for _, other := range foreign {
		if other.Flag == f.Name {
			names = append(names, other.Names...)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, ".") })
	text := ""
	if f.Short != 0 {
		text = "-" + string(f.Short) + ", "
	}
	if f.Tag.Negatable != "" {
		names[0] = "[no-]" + names[0]
	}
	text += "--" + strings.Join(names, ", --")
	if !f.IsBool() {
		text += "=" + f.FormatPlaceHolder()
	}
	h.wrap("  ", text)
	h.wrap("        ", f.Help)
}

// foreign lists flags of other programs that stand for none of this one.
func (h *helpText) foreign(list []Foreign) {
	shown := false
	for _, f := range list {
		if f.Flag != "" || f.Help == "" {
			continue
		}
		if !shown {
			h.line("\nFlags of other trainers")
			shown = true
		}
		h.wrap("  ", "--"+strings.Join(f.Names, ", --"))
		h.wrap("        ", f.Help)
	}
}

// paragraphs wraps text, but leaves examples of commands as they are.
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
