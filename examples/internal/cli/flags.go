package cli

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Parse reads the command line into the fields of flags, as package kong does, and ends
// the program when it cannot. In the names of flags an underscore stands for a dash. It
// refuses a flag of a file whose name is empty, as that of an unset variable is, and
// knows one tag more: a number is in an interval, with bounds that count in brackets,
// those that do not in parentheses, or without an upper bound:
//
//	Decay float64 `name:"decay" range:"[0,1)"`
func Parse(name string, flags any, options ...kong.Option) *kong.Context {
	parser := kong.Must(flags, append(options, kong.Name(name))...)
	parsed, err := parser.Parse(withDashes(os.Args[1:]))
	parser.FatalIfErrorf(err)
	if err := CheckFlags(parsed.Flags()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	return parsed
}

// CheckFlags demands of flags what Parse does beyond package kong.
func CheckFlags(flags []*kong.Flag) error {
	for _, f := range flags {
		if err := checkFlag(f); err != nil {
			return err
		}
	}
	return nil
}

// withDashes replaces the underscores in the names of flags, up to an argument --, after
// which there are none.
func withDashes(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if name, value, given := strings.Cut(arg, "="); strings.HasPrefix(name, "--") {
			args[i] = flagName(name)
			if given {
				args[i] += "=" + value
			}
		}
	}
	return args
}

func checkFlag(f *kong.Flag) error {
	if f.Set && isFile(f) && hasEmpty(f.Target) {
		what := "file"
		if isFolder(f) {
			what = "folder"
		}
		return fmt.Errorf("--%s is empty; name a %s", f.Name, what)
	}
	limits := f.Tag.Get("range")
	if limits == "" {
		return nil
	}
	return checkRange(f.Name, f.Target, limits)
}

// CheckThreads is the check of a --threads that is not read by Parse.
func CheckThreads(n int) error { return checkRange("threads", reflect.ValueOf(n), "[0,512]") }

func isFile(f *kong.Flag) bool {
	return strings.HasPrefix(f.PlaceHolder, "FILE") || isFolder(f)
}

func isFolder(f *kong.Flag) bool { return strings.HasPrefix(f.PlaceHolder, "DIR") }

// hasEmpty reports whether a string, or one of several, is empty.
func hasEmpty(v reflect.Value) bool {
	switch value := v.Interface().(type) {
	case string:
		return value == ""
	case []string:
		for _, s := range value {
			if s == "" {
				return true
			}
		}
	}
	return false
}

// checkRange demands a number in an interval such as [0,1).
func checkRange(name string, v reflect.Value, interval string) error {
	if allowed, inside := inRange(v, interval); !inside {
		return fmt.Errorf("--%s %v: it must be %s", name, v.Interface(), allowed)
	}
	return nil
}

// inRange reports whether a number is in an interval, and says in words what is.
func inRange(v reflect.Value, interval string) (allowed string, inside bool) {
	n := number(v)
	low, high, _ := strings.Cut(interval[1:len(interval)-1], ",")
	least := bound(low)
	inside = n > least || n == least && interval[0] == '['
	conditions := []string{"at least " + low}
	if interval[0] == '(' {
		conditions = []string{"above " + low}
	}
	if high != "" {
		most := bound(high)
		closed := strings.HasSuffix(interval, "]")
		inside = inside && (n < most || n == most && closed)
		if closed {
			conditions = append(conditions, "at most "+high)
		} else {
			conditions = append(conditions, "below "+high)
		}
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		inside, conditions = false, append([]string{"a finite number"}, conditions...)
	}
	return strings.Join(conditions, " and "), inside
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

func bound(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // of the program's source
	}
	return x
}
