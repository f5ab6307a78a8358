package cli

import (
	"fmt"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

type testFlags struct {
	Least int      `name:"least" range:"[0,)"`
	Both  int      `name:"both" default:"1" range:"[1,512]"`
	Open  float32  `name:"open" default:"0.5" range:"(0,1)"`
	Rate  float64  `name:"rate" range:"[0,)"`
	Steps int      `name:"steps" default:"-1" range:"-1|[1,)"`
	Part  *float64 `name:"part" range:"(0,1)"`
	Name  string   `name:"name"`
	Out   string   `name:"out" placeholder:"FILE"`
	In    []string `name:"in" sep:"none" placeholder:"FILE[=SCALE]"`
}

func TestCheckFlag(t *testing.T) {
	check := func(args ...string) error {
		parser := need.Value(kong.New(&testFlags{}))(t)
		c := need.Value(parser.Parse(args))(t)
		for _, f := range c.Flags() {
			if err := checkFlag(f); err != nil {
				return err
			}
		}
		return nil
	}
	for _, good := range []string{"--least=0", "--least=9223372036854775807", "--both=512", "--open=0.001", "--rate=1e30", "--name=", "--out=x", "--in=a", "--steps=-1", "--steps=1", "--part=0.5"} {
		require.NoError(t, check(good))
	}
	for arg, want := range map[string]string{
		"--least=-1": "it must be at least 0",
		"--both=0":   "it must be at least 1 and at most 512",
		"--both=513": "it must be at least 1 and at most 512",
		"--open=0":   "it must be above 0 and below 1",
		"--open=1":   "it must be above 0 and below 1",
		"--open=NaN": "it must be a finite number and above 0 and below 1",
		"--rate=Inf": "it must be a finite number and at least 0",

		"--rate=1e300":          "it must be a finite number and at least 0, also when rounded to single precision",
		"--part=0":              "--part 0: it must be above 0 and below 1",
		"--part=1e-300":         "it must be above 0 and below 1, also when rounded to single precision",
		"--part=0.999999999999": "it must be above 0 and below 1, also when rounded to single precision",
		"--steps=0":             "--steps 0: it must be -1, or at least 1",
		"--steps=-2":            "--steps -2: it must be -1, or at least 1",
	} {
		require.ErrorContains(t, check(arg), want, arg)
	}
	require.EqualError(t, check("--rate=-2.5"), "--rate -2.5: it must be at least 0")
	require.EqualError(t, check("--out="), "--out is empty; name a file")
	require.EqualError(t, check("--in=a", "--in="), "--in is empty; name a file")
}

// A failed write to standard output makes the program fail, even if the program ignores the error.
func TestOutputRemembers(t *testing.T) {
	broken := fmt.Errorf("no space left on device")
	o := &output{w: failing{broken}}
	require.NoError(t, o.join(nil))
	_, err := fmt.Fprintln(o, "text")
	require.EqualError(t, err, "cannot write standard output: no space left on device")
	_, again := fmt.Fprintln(o, "text")
	require.NoError(t, again)
	require.EqualError(t, o.join(nil), err.Error())
	require.Equal(t, err, o.join(err), "it is told once")
	require.EqualError(t, o.join(fmt.Errorf("bad")), "bad\ncannot write standard output: no space left on device")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
