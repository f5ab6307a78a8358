package testutil

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// seedVariable is the environment variable with the seed that continuous integration has chosen. The go command
// runs a test again if a variable that it reads has changed, so every commit tests another seed, even if it
// does not change the test.
const seedVariable = "GOGGML_FUZZ_SEED"

// CommitSeed returns the seed of random tests: from the environment, or the commit's first 32 bits, so that
// each commit tries another; 1 without a commit.
func CommitSeed(t testing.TB) uint64 {
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		return seed
	}
	// Git would refuse to read a clone of another owner, as in a container.
	commit, err := exec.Command("git", "-c", "safe.directory=*", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Logf("git: %v: without a commit the seed is 1", err)
		return 1
	}
	seed, err := strconv.ParseUint(string(commit[:8]), 16, 32)
	if err != nil {
		t.Fatalf("git: %v", err)
	}
	return 1 + seed
}
