;; Calls itself as its last act, which never gets deeper.
;; ends: load "instruction 0x12"
;; wat2wasm: --enable-tail-call
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func $again (export "flynn_route") (param i32) (result i64)
    (return_call $again (local.get 0)))
)
