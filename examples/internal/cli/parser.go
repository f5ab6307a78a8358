package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// A Parser reads command lines of a program.
type Parser struct {
	*kong.Kong
	all bool // help shows all flags
	out *output
}

// New returns the parser of a program with these flags.
func New(name string, flags any, options ...kong.Option) *Parser {
	p := &Parser{out: &output{w: os.Stdout}}
	options = append([]kong.Option{kong.Writers(p.out, os.Stderr), kong.Exit(p.exit)}, options...)
	p.Kong = kong.Must(flags, append(options, kong.Name(name), kong.Help(p.help))...)
	return p
}

// exit ends the process. If a help or a version could not be written, the status is an error.
func (p *Parser) exit(status int) {
	if status == 0 {
		end(p.Model.Name, p.out.err)
	}
	exit(status)
}

// Parse reads the command line into the fields of flags, as package kong does, and ends the program if it
// cannot. In names of flags an underscore equals a dash. A negative number is a value, as in --seed -1. A file
// flag with an empty value is an error: an unset variable gives one. Two more tags exist. basic shows a flag in
// the short help. range limits a number to an interval: brackets include a bound, parentheses exclude it, and
// the upper bound may be absent. A number before a bar is also allowed:
//
//	Decay float64 `name:"decay" range:"[0,1)" basic:""`
//	Steps int     `name:"steps" range:"-1|[1,)" default:"-1"`
//
// A zero that is given is zero. An absent flag has its default; a pointer is nil, and a number that must
// express absence is -1.
//
// Every program has --help-all and --version; a program with commands also has the commands help and version. A
// command with a method Foreign accepts flags of other programs.
func Parse(name string, flags any, options ...kong.Option) *kong.Context {
	p := New(name, flags, options...)
	parsed, err := p.Parse(os.Args[1:])
	if _, ofKong := err.(*kong.ParseError); ofKong {
		p.FatalIfErrorf(err)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		if parsed != nil {
			exit(1)
		}
		exit(notParsed)
	}
	return parsed
}

// notParsed is the exit status for an invalid command line, as in package kong.
const notParsed = 80

// Parse reads a command line. If only a value is invalid, it returns the context together with the error.
func (p *Parser) Parse(args []string) (*kong.Context, error) {
	args, done := p.standard(args)
	if done {
		p.Exit(0)
	}
	args = normalize(args)
	node, err := p.selected(args)
	if err != nil {
		return nil, err
	}
	c := &commandLine{vocabulary: vocabularyOf(node), args: args}
	c.takesFile = len(node.Positional) == 0 && c.flag("config") != nil
	if err := c.translate(); err != nil {
		return nil, err
	}
	parsed, err := p.Kong.Parse(c.out)
	if err != nil {
		return nil, withRemedy(err, c.vocabulary)
	}
	for _, note := range c.notes {
		fmt.Fprintln(p.Stderr, note)
	}
	return parsed, CheckFlags(parsed.Flags())
}

// standard handles what every program offers, such as the command version; done reports that nothing else is to
// be done.
func (p *Parser) standard(args []string) (rest []string, done bool) {
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	if len(args) > 0 && args[0] == "version" {
		args = []string{"--version"}
	}
	p.all = false
	for i, arg := range args {
		switch arg {
		case "--":
			return append(rest, args[i:]...), false
		case "--version":
			printVersion(p.Stdout, p.Model.Name)
			return nil, true
		case "--help-all", "--help_all":
			p.all = true
			arg = "--help"
		}
		rest = append(rest, arg)
	}
	return rest, false
}

// selected returns the command that the arguments name, else the default command, else the program.
func (p *Parser) selected(args []string) (*kong.Node, error) {
	node := p.Model.Node
	if len(node.Children) == 0 {
		return node, nil
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		for _, child := range node.Children {
			if child.Name == args[0] {
				return child, nil
			}
		}
		if node.DefaultCmd == nil || !isYAML(args[0]) {
			return nil, unknownCommand(args[0], node)
		}
	}
	if node.DefaultCmd != nil {
		return node.DefaultCmd, nil
	}
	return node, nil
}

// vocabularyOf returns the flags of a command and of the program.
func vocabularyOf(node *kong.Node) vocabulary {
	v := vocabulary{command: node.Name, foreign: foreignFlags(node)}
	for ; node != nil; node = node.Parent {
		v.flags = append(v.flags, node.Flags...)
	}
	return v
}

// vocabulariesFrom returns the vocabularies of a command, of the default command, and of all others.
func vocabulariesFrom(app, node *kong.Node) []vocabulary {
	list := []vocabulary{vocabularyOf(node)}
	first := app.DefaultCmd
	if first == nil {
		first = node
	}
	list = append(list, vocabularyOf(first))
	for _, child := range app.Children {
		if child != node && child != first {
			list = append(list, vocabularyOf(child))
		}
	}
	return list
}

// isYAML reports whether an argument names a file of flags.
func isYAML(arg string) bool {
	return strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

// withRemedy adds to an error of kong which numbers a flag accepts.
func withRemedy(err error, words vocabulary) error {
	if name, _, isValue := strings.Cut(strings.TrimPrefix(err.Error(), "--"), ": expected "); isValue {
		if f := words.flag(name); f != nil && f.Tag.Has("range") {
			return fmt.Errorf("%w; it must be %s", err, allowed(f.Tag.Get("range")))
		}
	}
	return err
}
