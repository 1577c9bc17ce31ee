package bench

const codeTimeout = "timeout"
