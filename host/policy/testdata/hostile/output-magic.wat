;; An output without its magic number.
;; ends: answer-error
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 64) "\46\00\00\00\03\00\01\00\20\00\00\00\00\00\00\00\40\00\01\00\1c\00\00\00\04\00\00\00\6d\61\69\6e")
  (func (export "flynn_route") (param $size i32) (result i64)
    (memory.copy (i32.const 4096) (i32.const 64) (i32.const 32))
    (i64.const 0x00000020_00000001)))
