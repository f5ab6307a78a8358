package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

type configFlags struct {
	Config ConfigFile `name:"config" placeholder:"FILE"`
	Rank   int        `name:"lora-r" default:"8" group:"Adapter"`
	Rate   float64    `name:"adam-alpha" aliases:"learning-rate" default:"0.1" group:"Optimiser"`
	Data   []string   `name:"train-data" sep:"none" required:"" group:"Data"`
	Start  string     `name:"sample-start" group:"Data"`
	Shape  string     `name:"schedule" enum:"cosine,linear" default:"cosine" group:"Run"`
	Beta   float64    `name:"beta" range:"[0,1)" default:"0.5" group:"Optimiser"`
	Escape bool       `name:"escape" default:"true" negatable:"" group:"Data"`
	RunDir string     `name:"run-dir" aliases:"output-dir" placeholder:"DIR" group:"Run"`
	Files  []string   `name:"files" sep:"none" placeholder:"FILE" group:"Run"`
	Out    string     `name:"out" placeholder:"FILE" group:"Run"`
	Key    int        `name:"rank-of-key" default:"-1" unset:"-1" group:"Adapter"`
}

func parseConfig(t *testing.T, text string, args ...string) (configFlags, *kong.Context, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	var command struct {
		Train configFlags `cmd:"" default:"withargs"`
		Other struct{}    `cmd:""`
	}
	parser := need.Value(kong.New(&command, kong.Exit(func(int) { t.Fatal("exit") })))(t)
	parsed, err := parser.Parse(append([]string{"--config", path}, args...))
	return command.Train, parsed, err
}

func TestConfigFile(t *testing.T) {
	got, parsed, err := parseConfig(t, "# a run\nlora_r: 16\nlearning-rate: 2e-4\ntrain-data: [a b.txt, \"c,d\"]\nsample-start: \"<\\n>: \"\nescape: false\n", "--lora-r", "32")
	require.NoError(t, err)
	require.Equal(t, configFlags{Config: got.Config, Rank: 32, Rate: 2e-4, Data: []string{"a b.txt", "c,d"}, Start: "<\n>: ", Shape: "cosine", Beta: 0.5, Key: -1}, got)

	var written bytes.Buffer
	require.NoError(t, WriteConfig(&written, parsed.Flags(), ConfigOptions{}))
	require.Equal(t, "# Adapter\nlora-r: 32\n# Optimiser\nadam-alpha: 0.0002\nbeta: 0.5\n# Data\ntrain-data:\n    - a b.txt\n    - c,d\nsample-start: \"<\\n>: \"\nescape: false\n# Run\nschedule: cosine\n", written.String())
	again, _, err := parseConfig(t, written.String())
	require.NoError(t, err)
	again.Config = got.Config
	require.Equal(t, got, again, "what is written is read")

	one, _, err := parseConfig(t, "train-data: text.txt")
	require.NoError(t, err)
	require.Equal(t, []string{"text.txt"}, one.Data)
	_, _, err = parseConfig(t, "", "--train-data=x")
	require.NoError(t, err)
}

// The file of a run's folder has the resolved values of flags. It finds its paths after the folder was moved
// and from any working directory: paths inside the folder move with it, all others stay.
func TestConfigOfFolder(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	run := filepath.Join(root, "run")
	require.NoError(t, os.Mkdir(run, 0o700))
	_, parsed, err := parseConfig(t, "train-data: a\nrun-dir: run\nout: run/x/../out\nfiles: [run/in, ../up, -, /abs, run.txt, \"*.json\"]\nrank-of-key: 3")
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, WriteConfig(&text, parsed.Flags(), ConfigOptions{Folder: "run", Resolved: map[string]Resolved{
		"lora-r": {Value: 7, Note: "why"}, "schedule": {}, "rank-of-key": {Value: -1},
	}}))
	up := filepath.Join(filepath.Dir(root), "up")
	require.Equal(t, "# Adapter\nlora-r: 7 # why\nrank-of-key: -1\n# Optimiser\nadam-alpha: 0.1\nbeta: 0.5\n# Data\ntrain-data:\n    - a\nescape: true\n"+
		"# Run\nrun-dir: .\nfiles:\n    - in\n    - "+up+"\n    - '-'\n    - /abs\n    - "+root+"/run.txt\n    - "+root+"/*.json\nout: out\n", text.String())

	require.NoError(t, os.WriteFile(filepath.Join(run, "config.yaml"), text.Bytes(), 0o600))
	require.NoError(t, os.Mkdir("sub", 0o700))
	require.NoError(t, os.Rename("run", "sub/moved"))
	read := func(config string) []string {
		var flags configFlags
		parser := need.Value(kong.New(&flags))(t)
		_, err := parser.Parse([]string{"--config", config})
		require.NoError(t, err)
		return append([]string{flags.RunDir, flags.Out}, flags.Files...)
	}
	require.Equal(t, []string{"sub/moved", "sub/moved/out", "sub/moved/in", up, "-", "/abs", root + "/run.txt", root + "/*.json"}, read("sub/moved/config.yaml"))
	t.Chdir("sub/moved")
	require.Equal(t, []string{".", "out", "in", up, "-", "/abs", root + "/run.txt", root + "/*.json"}, read("config.yaml"))
}

func TestConfigFileFaults(t *testing.T) {
	for text, want := range map[string]string{
		"lora-r: 4\nlora-rank: 16":        "run.yaml:2: there is no flag --lora-rank; did you mean --lora-r?",
		"lora-r: 4\nlora_r: 16":           "run.yaml:2: lora_r is given twice: line 1 gives it",
		"adam_alpha: 1\nlearning_rate: 2": "run.yaml:2: learning_rate is given twice: line 1 gives it as adam_alpha",
		"\nlora-r: many":                  `run.yaml:2: expected a valid 64 bit int but got "many"`,
		"lora-r: 1\nbeta: 1":              "run.yaml:2: 1: it must be at least 0 and below 1",
		"lora-r: 1\nschedule: rising":     "run.yaml:2: rising: it must be one of cosine, linear",
		"lora-r: {a: 1}":                  "run.yaml:1: lora-r must be a single value or a list of single values",
		"train-data: [[a]]":               "run.yaml:1: train-data must be a list of single values",
		"- lora-r":                        "run.yaml:1: expected a mapping of flags, such as\n\tlora-r: 16",
		"lora-r: [1\n":                    "run.yaml: yaml: line 1",
		"escape: maybe\ntrain-data: [a]":  `run.yaml:1: bool value must be true, 1, yes, false, 0 or no but got "maybe"`,
		"lora-r: 3":                       "missing flags: --train-data",
	} {
		_, _, err := parseConfig(t, text)
		require.ErrorContains(t, err, want, text)
	}
	var command struct {
		Train configFlags `cmd:"" default:"withargs"`
	}
	parser := need.Value(kong.New(&command))(t)
	_, err := parser.Parse([]string{"--config", "none.yaml"})
	require.EqualError(t, err, "--config: none.yaml: no such file or directory")
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ given, want []string }{
		{[]string{"--rank_ffn_up=a_b", "--lora_r", "x_y", "-m_x", "--", "--keep_me", "-1"}, []string{"--rank-ffn-up=a_b", "--lora-r", "x_y", "-m_x", "--", "--keep_me", "-1"}},
		{[]string{"--epochs", "-1", "-s", "-2", "--prompt", "-.5"}, []string{"--epochs=-1", "-s-2", "--prompt=-.5"}},
		{[]string{"--prompt=x", "-1", "-1", "--data", "-", "-m", "-inf"}, []string{"--prompt=x", "-1", "-1", "--data", "-", "-m", "-inf"}},
		{nil, nil},
	} {
		require.Equal(t, c.want, normalize(c.given))
	}
}

// A negative number is the value of the flag before it.
func TestNegativeNumbers(t *testing.T) {
	var flags struct {
		Seed   int `short:"s"`
		Epochs int
	}
	parser := need.Value(kong.New(&flags))(t)
	_, err := parser.Parse(normalize([]string{"-s", "-2", "--epochs", "-1"}))
	require.NoError(t, err)
	require.Equal(t, [2]int{-2, -1}, [2]int{flags.Seed, flags.Epochs})
}
