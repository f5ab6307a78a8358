package clitest

import (
	"fmt"
	"os"
	"strings"

	"github.com/goggml/ggml"
)

// Condition evaluates a condition of scripts: [device:NAME] that the device exists, [env:NAME] that the variable is set in
// the environment of the tests, [root] that the process is root, so that permissions have no effect, and [llama.cpp] that
// advice is run by llama.cpp itself.
func Condition(cond string) (bool, error) {
	switch cond {
	case "root":
		return os.Geteuid() == 0, nil
	case "llama.cpp":
		return os.Getenv(StockRun) != "", nil
	}
	if name, ok := strings.CutPrefix(cond, "env:"); ok {
		return os.Getenv(name) != "", nil
	}
	name, ok := strings.CutPrefix(cond, "device:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	_, err := ggml.DeviceByName(name)
	return err == nil, nil
}
