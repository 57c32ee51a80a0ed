# vivado -mode batch -source vivado.tcl
`SOURCES
read_xdc `NAME.xdc
synth_design -top `NAME -part xc7a100tcsg324-1 -mode out_of_context
opt_design
place_design
route_design
report_utilization -file ../reports/`NAME_vivado_utilization.txt
report_timing_summary -file ../reports/`NAME_vivado_timing.txt
