package cli

import (
	"bytes"
	"io"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

type fileFlags struct {
	Config ConfigFile `name:"config" placeholder:"FILE" help:"File."`
	Out    string     `name:"out" short:"o" basic:"" help:"Where to write."`
	Fast   bool       `name:"fast" short:"f" help:"Be fast."`
	List   []string   `name:"list" help:"Names."`
}

// A file of flags may be a bare argument; the value of a flag is not mistaken for one.
func TestFileByItsName(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"a.yaml"}, []string{"--config=a.yaml"}},
		{[]string{"--out", "a.yaml", "-f", "b.yml", "--fast", "True"}, []string{"--out", "a.yaml", "-f", "--config=b.yml", "--fast=true"}},
		{[]string{"-o", "a.yaml", "--config", "b.yaml"}, []string{"-o", "a.yaml", "--config", "b.yaml"}},
		{[]string{"--list", "a", "b", "--out=x"}, []string{"--list=a,b", "--out=x"}},
		{[]string{"--", "a.yaml"}, []string{"--", "a.yaml"}},
	} {
		p := New("program", &fileFlags{})
		line := &commandLine{vocabulary: vocabularyOf(p.Model.Node), takesFile: true, args: c.args}
		require.NoError(t, line.translate())
		require.Equal(t, c.want, line.out, c.args)
	}
}

// The short help has the basic flags, --help-all has all; example commands keep their lines.
func TestShortHelp(t *testing.T) {
	long := "Example: program --out x --and --so --on --beyond --the --width --of --a --line --of --help"
	help := func(args ...string) string {
		var out bytes.Buffer
		p := New("program", &fileFlags{}, kong.Description("Do it.\n\n"+long), kong.Writers(&out, io.Discard), kong.Exit(func(int) { panic("ended") }))
		require.PanicsWithValue(t, "ended", func() { _, _ = p.Parse(args) })
		return out.String()
	}
	require.Equal(t, "Usage: program [flags]\n\nDo it.\n\n"+long+"\n\nFlags\n  -o, --out=STRING\n        Where to write.\n\nprogram --help-all lists all of its 5 flags.\n", help("--help"))
	require.Equal(t, help("--help"), help("help"))
	require.Contains(t, help("--help-all"), "\n  -f, --fast\n        Be fast.\n  --list=LIST,...\n        Names.\n")
}
