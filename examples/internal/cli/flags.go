package cli

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Given returns the names of the flags that the command line or a [ConfigFile] sets. Kong's Set is true for
// defaults, too.
func Given(parsed *kong.Context) map[string]bool {
	given := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil {
			given[p.Flag.Name] = true
		}
	}
	return given
}

// Optional converts a flag's number to an option: -1 becomes nil, the default.
func Optional(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// CheckFlags checks what Parse demands beyond package kong.
func CheckFlags(flags []*kong.Flag) error {
	for _, f := range flags {
		if err := checkFlag(f); err != nil {
			return err
		}
	}
	return nil
}

// normalize replaces underscores in the names of flags, and joins a flag with a negative number behind it,
// which kong would take for a flag. It stops at an argument --, after which there are no flags.
func normalize(args []string) []string {
	var list []string
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		switch last := len(list) - 1; {
		case arg == "--":
			return append(list, args[i:]...)
		case isNegative(arg) && last >= 0 && strings.HasPrefix(list[last], "--") && !strings.Contains(list[last], "="):
			list[last] += "=" + arg
		case isNegative(arg) && last >= 0 && len(list[last]) == 2 && list[last][0] == '-' && !isNegative(list[last]):
			list[last] += arg
		case strings.HasPrefix(name, "--") && given:
			list = append(list, flagName(name)+"="+value)
		case strings.HasPrefix(name, "--"):
			list = append(list, flagName(name))
		default:
			list = append(list, arg)
		}
	}
	return list
}

// isNegative reports whether an argument is a number below 0.
func isNegative(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err == nil && len(arg) > 1 && arg[0] == '-' && (arg[1] == '.' || arg[1] >= '0' && arg[1] <= '9')
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

// CheckThreads checks a --threads that Parse does not read.
func CheckThreads(n int) error { return checkRange("threads", reflect.ValueOf(n), "[0,512]") }

func isFile(f *kong.Flag) bool {
	return strings.HasPrefix(f.PlaceHolder, "FILE") || isFolder(f)
}

func isFolder(f *kong.Flag) bool { return strings.HasPrefix(f.PlaceHolder, "DIR") }

// hasEmpty reports whether a string is empty, or an element of a list.
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

// checkRange validates a number against limits; a number that is not set is valid.
func checkRange(name string, v reflect.Value, limits string) error {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if allowed, inside := inRange(v, limits); !inside {
		return fmt.Errorf("--%s %v: it must be %s", name, v.Interface(), allowed)
	}
	return nil
}

// inRange reports whether a number is in an interval such as [0,1), or equals the number before it, as in
// -1|[1,). It also returns the allowed numbers in words.
func inRange(v reflect.Value, limits string) (allowed string, inside bool) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	n := number(v)
	interval, besides := limits, ""
	if single, rest, has := strings.Cut(limits, "|"); has {
		if n == bound(single) {
			return "", true
		}
		interval, besides = rest, single+", or "
	}
	allowed, inside = inInterval(n, interval)
	// Computations are in single precision, where a number may become 0 or infinite.
	if inside && v.CanFloat() {
		if allowed, inside = inInterval(float64(float32(n)), interval); !inside {
			allowed += ", also when rounded to single precision"
		}
	}
	return besides + allowed, inside
}

// allowed returns in words which numbers limits allow.
func allowed(limits string) string {
	words, _ := inRange(reflect.ValueOf(0), limits)
	return words
}

func inInterval(n float64, interval string) (allowed string, inside bool) {
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
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	}
	return v.Float()
}

func bound(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // an error in the program's source
	}
	return x
}
