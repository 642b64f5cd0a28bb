# ruff: noqa: E501 - rows are as in the source
"""The rows of the paper's tables as its LaTeX source has them: the declarations are compared with them.

They are not made from the declarations, nor the declarations from them.
"""

from __future__ import annotations

ROWS = {
    "losses": r"""
& $L_{a}$ & 16.90 & 44.20 & 57.56  \\
& $L_{a}$ + $L_{l}$ & 22.12 & 45.57 & 67.40  \\
& $L_{a}$ + $L_{l}$ + $L_{adv}$ & \textbf{23.34} & \textbf{49.96} & \textbf{73.89}  \\
& w/o \textit{Viterbi} & 22.66 & 45.95 & 67.52  \\
& $L_{a}$& 8.48 & 12.19 & 68.15  \\
& $L_{a}$ + $L_{l}$ & 14.41 & 20.25 & 73.49  \\
& $L_{a}$ + $L_{l}$ + $L_{adv}$ & \textbf{15.40} & \textbf{21.67} & \textbf{76.31}  \\
& w/o \textit{Viterbi} & 14.18 & 21.01 & 75.62  \\
& $L_{a}$&  17.81 & 42.35 & 69.42  \\
& $L_{a}$ + $L_{l}$& 24.05 & 46.67 & 73.89  \\
& $L_{a}$ + $L_{l}$ + $L_{adv}$ & \textbf{24.68} & \textbf{49.01} & \textbf{74.29}  \\
& w/o Viterbi & 20.18 & 47.73 & 73.09  \\
""",
    "memory": r"""
0 & 7.49 & 22.76 & 31.33 \\
64 & 16.30 & 43.62 & 55.66 \\
128 & \textbf{23.34} & \textbf{49.96} & \textbf{73.89} \\
256 & 20.81 & 44.61 & 59.70 \\
""",
    "crosstask": r"""
Random & - & $<$0.01 & 0.94 & 1.66 & $<$0.01 & 0.83 & 1.66\\
Retrieval-Based & - & 8.05 & 23.30 & 32.06 & 3.95 & 22.22 & 36.97 \\
WLTDO \cite{ehsani2018let} & - & 1.87 & 21.64 & 31.70 & 0.77 & 17.92 & 26.43 \\
UAAA \cite{abu2019uncertainty} & - & 2.15 & 20.21 & 30.87 & 0.98 & 19.86 & 27.09 \\
UPN \cite{srinivas2018universal} & V & 2.89 & 24.39 & 31.56 & 1.19 & 21.59 & 27.85\\
DDN \cite{procedure2020} & V & 12.18 & 31.29 & 47.48 & 5.97 & 27.10 & 48.46 \\
Ext-GAILw/o Aug. \cite{bi2021procedure} & V & 18.01 & 43.86 & 57.16 &  - & - &  - \\
Ext-GAIL \cite{bi2021procedure} & V & 21.27 & 49.46 & 61.70 &  \textbf{16.41} & 43.05 &  60.93 \\
Ours  & L &\textbf{23.34} & \textbf{49.96} &\textbf{73.89} & 13.40 & \textbf{44.16} & \textbf{70.01} \\
""",
    "long-horizons": r"""
Retrieval-Based & 8.05 & 3.95 & 2.40 & 1.10 \\
DDN \cite{procedure2020} &  12.18 & 5.97 & 3.10 & 1.20 \\
Ours (Protocol 1) & \textbf{23.34} & \textbf{13.40} &\textbf{7.21} & \textbf{4.40} \\
PlaTe \cite{sun2021plate} &  18.5 & 14.0 & 10.0 & 7.5 \\
Ours (Protocol 2) & \textbf{24.4} & \textbf{15.8} &\textbf{11.8} & \textbf{8.3} \\
""",
    "niv-coin": r"""
& Random & -& 2.21 & 4.07 &  6.09 & $<$0.01 & $<$0.01 & 2.47  \\
& Retrieval & - & - & - &  - & 4.38 & 17.40 & 32.06  \\
& DDN~\cite{procedure2020} & V & 18.41 & 32.54 & 56.56  & 13.9 & 20.19 & 64.78 \\
& Ext-GAIL~\cite{bi2021procedure} & V & 22.11 & 42.20 & 65.93 & - & - & -\\
& Ours & L & \textbf{24.68} & \textbf{49.01} & \textbf{74.29} & \textbf{15.4} & \textbf{21.67} & \textbf{76.31} \\
& Random & - & 1.12 & 2.73 & 5.84  &$<$0.01& $<$0.01&2.32\\
& Retrieval & - & - & - & - & 2.71& 14.29& 36.97\\
& DDN~\cite{procedure2020} & V & 15.97 & 27.09 & 53.84 & 11.13 & 17.71 & 68.06 \\
& Ext-GAIL~\cite{bi2021procedure} & V &  19.91 & 36.31 & 53.84 & - & -&- \\
& Ours & L & \textbf{20.14} & \textbf{38.36} & \textbf{67.29} & \textbf{11.32}& \textbf{18.85} & \textbf{70.53}\\
""",
    "distributions": r"""
& Ours - determinstic & 2.31 & 4.47 & 6.30 & 8.81 \\
& Ours - probabilistic & \textbf{2.11} & \textbf{3.50} & \textbf{4.26} & \textbf{6.89} \\
& Ours - determinstic & 5.13 & 6.25 & 6.68 & 8.49 \\
& Ours - probabilistic & \textbf{4.89} & \textbf{5.48} & \textbf{6.24} & \textbf{7.67} \\
""",
    "modes": r"""
& Ours - deterministic & 27.61 & 17.21 & 7.41  & 4.97 \\
& Ours - probabilistic & \textbf{36.61} & \textbf{18.55} & \textbf{12.48}  & \textbf{6.58} \\
& Ours - deterministic  & 56.24 & 37.33 & 18.38  & 8.85 \\
& Ours - probabilistic  & \textbf{66.13} & \textbf{46.56} & \textbf{26.46}  & \textbf{12.67} \\
CosDist & Ours - probabilistic & 0.384 & 0.302 & 0.2471 & 0.1658 \\
""",
    "regularisation": r"""
& Ours - prob. w/o $\mathcal{L}_{reg}$ & 5.07 & 6.61 & 7.57 & 8.28 \\
& Ours - prob. & \textbf{4.89} & \textbf{5.48} & \textbf{6.24} & \textbf{7.67} \\
& Ours - prob. w/o $\mathcal{L}_{reg}$ & 2.37 & 4.45 & 6.49 & 7.74 \\
& Ours - prob. & \textbf{2.11} & \textbf{3.50} & \textbf{4.26} & \textbf{6.89} \\
""",
    "viterbi": r"""
\text{B Uniform} & 0.12 & 7.25 & $<$0.01 \\
\text{A Uniform} & 22.61 & 46.12 &  70.24 \\
\text{Ours} & \textbf{23.34} & \textbf{49.96} & \textbf{73.89} \\
""",
    "samples": r"""
& 150 & 5.03 $\pm$ 0.21 & 5.85 $\pm$ 0.31 & 6.78 $\pm$ 0.25 & 8.73 $\pm$ 0.43 \\
& 500 & 4.91 $\pm$ 0.11 & 5.71 $\pm$ 0.20 & 6.57 $\pm$ 0.13 & 8.33 $\pm$ 0.27 \\
& 1500 & 4.89 $\pm$ 0.10 & 5.48 $\pm$ 0.11 & 6.24 $\pm$ 0.09 & 7.67 $\pm$ 0.18 \\
& 2500 & 4.89 $\pm$ 0.04 & 5.45 $\pm$ 0.06 & 6.22 $\pm$ 0.05 & 7.63 $\pm$ 0.08 \\
& 150 & 2.51 $\pm$ 0.31 & 4.20 $\pm$ 0.44 & 4.66 $\pm$ 0.29 & 7.23 $\pm$ 0.14 \\
& 500 & 2.48 $\pm$ 0.24 & 3.58 $\pm$ 0.12 & 4.51 $\pm$ 0.20 & 6.94 $\pm$ 0.10 \\
& 1500 & 2.11 $\pm$ 0.10 & 3.50 $\pm$ 0.06 & 4.26 $\pm$ 0.08 & 6.89 $\pm$ 0.03 \\
& 2500 & 2.01 $\pm$ 0.06 & 3.27 $\pm$ 0.02 & 4.18 $\pm$ 0.02 &  6.83 $\pm$ 0.01 \\
""",
    "architecture": r"""
2/1 & 17.81 & 40.67 & 70.85 \\
2/4 & 20.54 & 48.32 & 73.05 \\
2/8 & \textbf{23.34} & \textbf{49.96} & \textbf{73.89} \\
3/4 & 19.21 & 45.51 & 72.47  \\
3/8 & 14.85 & 39.48 & 69.72 \\
""",
    "uncertainty": r"""
Ours-prob. (HowTo100M pretrained)  & \textcolor{red}{23.34} & \todo{48.96} &  \todo{73.89} & \todo{2.11} & \textcolor{red}{4.89} & \color{red}{36.61} & \color{red}{66.13} \\
Ours-prob. (CrossTask pretrained)   & 10.82 & 35.11 & 58.32 & 3.78 & 5.56 & 17.19 & 12.40\\
Ours-deter+noise ($\sigma = 1$)  & 20.02 & 44.76 & 72.96 & 2.37 & 5.77 & 24.74 & \todo{67.21}\\
Ours-deter+noise ($\sigma = 3$)  & 10.94 & 42.67 & 63.63 & 3.53 & 7.51 & 4.290 & 58.96 \\
Ours-deter+noise ($\sigma = 5$)  & 5.83 & 35.53 & 55.43 & 5.52 & 8.53 & 1.169 & 37.01\\
Ours-deter+dropout ($p = 0.1$)  & 22.27 & 45.43 & 73.40 & 2.34 & 5.49 & 33.79 & 44.17 \\
Ours-deter+dropout ($p = 0.3$)  & 22.04 & 43.64 & 70.97 & 2.46 & 5.83 & 30.61 & 55.32 \\
Ours-deter+dropout ($p = 0.5$)   & 20.77 & 44.89 & 70.21 & 2.73 & 6.40 & 24.08 & 64.61 \\
Ours-prob. (Strong Sup.)   & \todo{24.41} & \color{red}{45.17} & \color{red}{73.83} & \color{red}{2.12} & \todo{4.71} & \todo{36.89} & 62.69 \\
""",
    "distributions-coin": r"""
& Ours - determinstic & 6.37 & 6.38 & 7.71 & 8.95 \\
& Ours - probabilistic & 6.37 & 6.37 &  7.79 & 8.84 \\
& Ours - determinstic & 5.34 & 6.88 & 6.75 & 7.06 \\
& Ours - probabilistic & 5.75 & 6.68 &  6.84 & 7.15 \\
""",
    "distributions-niv": r"""
& Ours - determinstic & 7.18 & 7.79 & 8.49 & 9.17 \\
& Ours - probabilistic & 7.07 & 7.81 & 8.36 & 9.25 \\
& Ours - determinstic & 5.35 & 5.60 & 5.96 & 8.23 \\
& Ours - probabilistic & 4.92 & 5.76 & 6.28 & 9.51 \\
""",
    "unique-plans": r"""
CrossTask & 3.26 & 6.76 & 8.40 & 9.29 \\
COIN  & 1.51 & 1.93 &  2.25 & 2.35 \\
NIV  & 1.03 & 1.07 & 1.28 & 1.29 \\
""",
}
